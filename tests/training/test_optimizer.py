"""Google's optimizer and schedule, compared with Google's own trajectory and with the formulas."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cloze.data.batch import DataPosition, PretrainingBatch
from cloze.models.batch import pack_padded
from cloze.models.bert import GOOGLE, BertConfig, BertModel
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.metric_sums import MetricSums
from cloze.training.metrics_log import read_metrics
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import (
    Budget,
    OptimizerConfig,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    round_warmup,
    set_learning_rate,
)
from cloze.training.run import TrainingRun
from runs import CARD


def _model(nano, weights: dict[str, Tensor]) -> BertForPreTraining:
    config = replace(nano.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForPreTraining(BertModel(config))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    model.load_state_dict(GOOGLE.from_external(dict(weights), shapes))
    return model


class GoogleObjective(Objective):
    """Google's one batch, at every step: both the objective and the source of its batches."""

    loss_names = ("masked", "following")

    def __init__(self, model: BertForPreTraining, batch: Mapping[str, Tensor]) -> None:
        super().__init__(model)
        packed, padding = pack_padded(batch["input_ids"], batch["input_mask"].bool(), batch["segment_ids"])
        token_of_cell = torch.full((batch["input_ids"].numel(),), -1)
        token_of_cell[padding.cell_of_token] = torch.arange(packed.num_tokens)
        rows, slots = batch["masked_lm_weights"].nonzero(as_tuple=True)
        cells = rows * batch["input_ids"].shape[1] + batch["masked_lm_positions"][rows, slots]
        labels = batch["next_sentence_labels"].flatten()[padding.row_of_sequence].long()
        self.batch = PretrainingBatch.extend(
            packed,
            masked_lm_positions=token_of_cell[cells],
            masked_lm_ids=batch["masked_lm_ids"][rows, slots].long(),
            next_sentence_labels=labels,
        )
        self.counts = {"masked": len(rows), "following": len(labels)}

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[None]:
        return StepData([None], self.batch.num_tokens, self.counts, position, "the batch")

    def forward(self, batch: None) -> MetricSums:
        masked, following = self.model.losses(self.batch)
        return {"masked": (masked, self.counts["masked"]), "following": (following, self.counts["following"])}

    def evaluate(self) -> Iterator[MetricSums]:
        yield self(None)

    def save_model(self, directory: Path) -> None:
        """Save nothing."""


@pytest.fixture(scope="module")
def googles_steps(google_nano, tmp_path_factory) -> tuple[BertForPreTraining, list[dict[str, Any]]]:
    """The model after twenty steps of our training loop on Google's batch, and what was logged of each."""
    settings, run = google_nano.trajectory, tmp_path_factory.mktemp("run")
    model = _model(google_nano, google_nano.weights)
    steps = settings["num_train_steps"]
    objective = GoogleObjective(model, google_nano.expected)
    TrainingRun(
        path=run,
        settings="",
        config=RunSettings(
            seed=1,
            micro_batch_tokens=1 << 20,
            optimizer=OptimizerConfig(
                learning_rate=settings["init_lr"], warmup_fraction=settings["num_warmup_steps"] / steps
            ),
            precision="float32",
        ),
        evaluation=EvaluationConfig(times=1, log_every_steps=1),
        budget=Budget(steps),
        card=CARD,
        context=DistributedContext(torch.device("cpu")),
    ).train(lambda _: objective, lambda: objective)
    return model, [row for row in read_metrics(run) if row["kind"] == "train"]


@pytest.mark.protected
def test_twenty_steps_follow_googles_trajectory(google_nano, googles_steps):
    _, rows = googles_steps
    losses = [[row["loss"], row["masked"], row["following"]] for row in rows]
    np.testing.assert_allclose(losses, google_nano.trajectory["losses"], rtol=1e-4)


@pytest.mark.protected
def test_learning_rates_equal_googles(google_nano, googles_steps):
    """google-research/bert optimization.py:32-56 @eedf571: of steps counted from 0."""
    settings, (_, rows) = google_nano.trajectory, googles_steps
    steps, warmup, rate = (settings[name] for name in ("num_train_steps", "num_warmup_steps", "init_lr"))
    expected = [rate * step / warmup if step < warmup else rate * (1 - step / steps) for step in range(steps)]
    assert [row["learning_rate"] for row in rows] == pytest.approx(expected, rel=1e-6)


@pytest.mark.protected
def test_twenty_steps_end_with_googles_weights(google_nano, googles_steps, shared):
    model, _ = googles_steps
    with np.load(shared / "golden" / "google-nano" / "weights_step20.npz") as arrays:
        ended = _model(google_nano, {name: torch.from_numpy(array) for name, array in arrays.items()})
    for (name, ours), theirs in zip(model.named_parameters(), ended.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5, msg=lambda text, n=name: f"{n} {text}")


@pytest.mark.parametrize("beta2", [0.999, 0.9999999, 0.0])
def test_update_has_no_bias_correction_and_decoupled_decay(beta2):
    config = OptimizerConfig(learning_rate=0.01, weight_decay=0.1, beta2=beta2)
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
        m, v = 0.9 * m + 0.1 * gradient, beta2 * v + (1 - beta2) * gradient**2
        weight = weight - config.learning_rate * (m / (v.sqrt() + config.epsilon) + 0.1 * weight)
        m_bias, v_bias = 0.9 * m_bias + 0.1 * gradient_bias, beta2 * v_bias + (1 - beta2) * gradient_bias**2
        bias = bias - config.learning_rate * m_bias / (v_bias.sqrt() + config.epsilon)
    torch.testing.assert_close(model.weight.detach(), weight)
    torch.testing.assert_close(model.bias.detach(), bias)


@pytest.mark.protected
def test_bias_correction_equals_torch_adam():
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


def test_learning_rate_rises_then_falls_on_a_line_from_step_zero():
    config = OptimizerConfig(learning_rate=1.0e-3, warmup_fraction=0.25)

    def rates(steps: int, config: OptimizerConfig) -> list[float]:
        return [learning_rate_at(step / steps, config) * 1e3 for step in range(steps + 1)]

    assert rates(8, config) == pytest.approx([0, 0.5, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0])
    # with a shorter decay it stays at its peak before
    shorter = replace(config, decay_fraction=0.5)
    assert rates(8, shorter) == pytest.approx([0, 0.5, 1, 1, 1, 0.75, 0.5, 0.25, 0])
    # a warm-up has whole steps, as Google's int(num_train_steps * warmup_proportion)
    whole = round_warmup(replace(config, warmup_fraction=0.1), Budget(25))
    assert rates(25, whole)[:4] == pytest.approx([0, 0.5, 1 - 2 / 25, 1 - 3 / 25])
    assert round_warmup(replace(config, warmup_fraction=0.1), Budget(9)).warmup_fraction == 0
    assert round_warmup(config, Budget(seconds=9.0)) == config


def test_clipping_scales_to_the_global_norm_and_no_smaller_gradients():
    parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))]
    for parameter, value in zip(parameters, (3.0, 4.0), strict=True):
        parameter.grad = torch.zeros_like(parameter)
        parameter.grad[0] = value
    for most, norm, last in ((math.inf, 5, 4), (5, 5, 4), (1, 5, 0.8), (2, 1, 0.8)):
        assert clip_gradients(parameters, float(most)).item() == pytest.approx(norm)
        assert parameters[1].grad[0].item() == pytest.approx(last, rel=1e-6 * (most < 5))
    parameters[0].grad.zero_()
    assert clip_gradients(parameters[:1], 1.0) == 0
    assert torch.equal(parameters[0].grad, torch.zeros(2))


@pytest.mark.parametrize("layer_decay", [0.5, 1.0])
def test_the_rate_falls_from_the_head_to_the_embeddings(layer_decay):
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForSequenceClassification(BertModel(BertConfig(vocab_size=20, **sizes)), num_labels=2)
    optimizer = build_optimizer(model, OptimizerConfig(layer_decay=layer_decay))
    set_learning_rate(optimizer, 1e-3)
    rates = {parameter: group["lr"] for group in optimizer.param_groups for parameter in group["params"]}
    depths = {"embeddings.": 3, "layers.0.": 2, "layers.1.": 1}
    assert len(rates) == len(list(model.parameters()))
    for name, parameter in model.named_parameters():
        depth = next((depth for part, depth in depths.items() if part in name), 0)
        assert rates[parameter] == pytest.approx(1e-3 * layer_decay**depth), name
