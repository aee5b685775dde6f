"""Google's optimizer and schedule, against Google's own trajectory and against the formulae."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cloze.model.bert import BertModel
from cloze.model.heads import BertForPreTraining
from cloze.model.layouts import GOOGLE
from cloze.model.packed import pack_padded
from cloze.progress import SILENT
from cloze.training.budget import Steps
from cloze.training.checkpoints import CheckpointConfig, Position
from cloze.training.distribution import World
from cloze.training.loop import EvaluationConfig, Trainer
from cloze.training.measures import Measures
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import (
    OptimizerConfig,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    with_whole_warmup,
)
from cloze.training.work import StepData


def _model(nano, weights: dict[str, Tensor]) -> BertForPreTraining:
    config = replace(nano.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForPreTraining(BertModel(config))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    model.load_state_dict(GOOGLE.from_foreign(weights, shapes))
    return model


class GoogleWork:
    """Google's one batch, at every step."""

    losses = ("masked", "following")

    def __init__(self, batch: Mapping[str, Tensor]) -> None:
        self.packed, padding = pack_padded(
            batch["input_ids"], batch["input_mask"].bool(), batch["segment_ids"]
        )
        token_of_cell = torch.full((batch["input_ids"].numel(),), -1)
        token_of_cell[padding.cell_of_token] = torch.arange(self.packed.num_tokens)
        rows, slots = batch["masked_lm_weights"].nonzero(as_tuple=True)
        cells = rows * batch["input_ids"].shape[1] + batch["masked_lm_positions"][rows, slots]
        self.positions = token_of_cell[cells]
        self.ids = batch["masked_lm_ids"][rows, slots].long()
        self.labels = batch["next_sentence_labels"].flatten()[padding.row_of_sequence].long()

    def step_data(self, progress: float, position: Position, micro_batch_tokens: int) -> StepData[None]:
        return StepData([None], self.packed.num_tokens, position, "the batch")

    def loss(self, model: nn.Module, batch: None, step: StepData[None]) -> tuple[Tensor, Measures]:
        sums = model.losses(self.packed, self.positions, self.ids, self.labels)
        measures = {
            "masked": (sums.masked_lm_loss_sum, len(self.ids)),
            "following": (sums.next_sentence_loss_sum, len(self.labels)),
        }
        return sum(total / count for total, count in measures.values()), measures

    def evaluate(self, model: nn.Module) -> Iterator[Measures]:
        yield self.loss(model, None, self.step_data(0, Position(), 0))[1]

    def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
        return (-measured["loss"],)


@pytest.fixture(scope="module")
def googles_steps(google_nano, tmp_path_factory) -> tuple[BertForPreTraining, list[dict[str, Any]]]:
    """The model after twenty steps of our training loop on Google's batch, and what was logged of each."""
    settings, run = google_nano.trajectory, tmp_path_factory.mktemp("run")
    model = _model(google_nano, google_nano.weights)
    steps = settings["num_train_steps"]
    Trainer(
        model=model,
        work=GoogleWork(google_nano.expected),
        budget=Steps(steps),
        run=run,
        write_model=lambda directory, model, state: None,
        optimizer_config=OptimizerConfig(
            learning_rate=settings["init_lr"], warmup_fraction=settings["num_warmup_steps"] / steps
        ),
        checkpoint_config=CheckpointConfig(),
        evaluation_config=EvaluationConfig(times=1, log_every_steps=1),
        seed=1,
        compute_dtype=torch.float32,
        micro_batch_tokens=1 << 20,
        progress=SILENT,
        world=World(torch.device("cpu")),
    ).train()
    return model, [row for row in read_metrics(run) if row["kind"] == "train"]


def test_twenty_steps_follow_googles_trajectory(google_nano, googles_steps) -> None:
    _, rows = googles_steps
    losses = [[row["loss"], row["masked"], row["following"]] for row in rows]
    np.testing.assert_allclose(losses, google_nano.trajectory["losses"], rtol=1e-4)


def test_the_rates_are_googles(google_nano, googles_steps) -> None:
    """google-research/bert optimization.py:32-56 @eedf571: of steps counted from 0."""
    settings, (_, rows) = google_nano.trajectory, googles_steps
    steps, warmup, rate = (settings[name] for name in ("num_train_steps", "num_warmup_steps", "init_lr"))
    expected = [rate * step / warmup if step < warmup else rate * (1 - step / steps) for step in range(steps)]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected, rel=1e-6)


def test_twenty_steps_end_in_googles_weights(google_nano, googles_steps, shared: Path) -> None:
    model, _ = googles_steps
    with np.load(shared / "golden" / "google-nano" / "weights_step20.npz") as arrays:
        ended = _model(google_nano, {name: torch.from_numpy(array) for name, array in arrays.items()})
    for (name, ours), theirs in zip(model.named_parameters(), ended.parameters(), strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=1e-4, atol=2e-5, msg=lambda text, n=name: f"{n}: {text}"
        )


def test_update_is_adam_without_bias_correction_and_with_decoupled_decay() -> None:
    config = OptimizerConfig(learning_rate=0.01, weight_decay=0.1)
    model = nn.Linear(3, 5)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    optimizer = build_optimizer(model, config)
    m = v = m_bias = v_bias = 0.0
    for _ in range(3):
        optimizer.zero_grad()
        (model(torch.ones(2, 3)) ** 2).sum().backward()
        gradient, gradient_bias = model.weight.grad.clone(), model.bias.grad.clone()
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        weight = weight - config.learning_rate * (m / (v.sqrt() + config.epsilon) + 0.1 * weight)
        m_bias, v_bias = 0.9 * m_bias + 0.1 * gradient_bias, 0.999 * v_bias + 0.001 * gradient_bias**2
        bias = bias - config.learning_rate * m_bias / (v_bias.sqrt() + config.epsilon)
    torch.testing.assert_close(model.weight.detach(), weight)
    torch.testing.assert_close(model.bias.detach(), bias)


def test_bias_correction_is_adams_own() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 5), nn.Linear(3, 5)
    theirs.load_state_dict(ours.state_dict())
    optimizer = build_optimizer(ours, OptimizerConfig(weight_decay=0.0, bias_correction=True))
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-6)
    for _ in range(3):
        for model, stepper in ((ours, optimizer), (theirs, reference)):
            stepper.zero_grad()
            (model(torch.ones(2, 3)) ** 2).sum().backward()
            for group in stepper.param_groups:
                group["lr"] = 0.01
            stepper.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_rate_rises_then_falls_on_a_line_from_step_zero() -> None:
    config = OptimizerConfig(learning_rate=1.0e-3, warmup_fraction=0.25)
    rates = [learning_rate_at(step / 20, config) * 1e3 for step in range(21)]
    assert rates[:5] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    assert rates[5] == pytest.approx(0.75)  # not 1.0: the decay was counted from step 0
    assert rates[20] == 0.0


def test_a_warm_up_in_steps_has_whole_ones() -> None:
    """As Google's int(num_train_steps * warmup_proportion)."""
    config = OptimizerConfig(learning_rate=1.0e-3, warmup_fraction=0.1)
    whole = with_whole_warmup(config, Steps(25))
    rates = [learning_rate_at(step / 25, whole) * 1e3 for step in range(4)]
    assert rates == pytest.approx([0, 0.5, 1 - 2 / 25, 1 - 3 / 25])
    assert learning_rate_at(0, with_whole_warmup(config, Steps(9))) == 1.0e-3


def test_gradients_that_need_no_scaling_are_left_alone() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    for gradient in (torch.tensor([3.0, 4.0]), torch.zeros(2)):
        for most in (math.inf, 1e30, 5.0):
            parameter.grad = gradient.clone()
            clip_gradients([parameter], most)
            assert torch.equal(parameter.grad, gradient)


def test_clipping_scales_to_the_global_norm_and_leaves_small_gradients_alone() -> None:
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))]
    for parameter, value in zip(parameters, (3.0, 4.0), strict=True):
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad[0] = value
    assert clip_gradients(parameters, 1.0).item() == pytest.approx(5.0)
    assert parameters[1].grad[0].item() == pytest.approx(0.8)
    assert clip_gradients(parameters, 2.0).item() == pytest.approx(1.0)
    assert parameters[1].grad[0].item() == pytest.approx(0.8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"warmup_fraction": 1.0},
        {"beta2": 1.0},
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"weight_decay": math.inf},
        {"max_grad_norm": 0.0},
        {"max_grad_norm": math.nan},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)
