"""Google's optimizer and schedule, against Google's own trajectory and against the formulae."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cloze.model.bert import BertModel
from cloze.model.heads import BertForPreTraining
from cloze.model.layouts import GOOGLE
from cloze.model.packed import pack_padded
from cloze.training.optimizer import OptimizerConfig, build_optimizer, clip_gradients, learning_rate_at


def _model(nano, weights: dict[str, Tensor]) -> BertForPreTraining:
    config = replace(nano.config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForPreTraining(BertModel(config))
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    model.load_state_dict(GOOGLE.from_foreign(weights, shapes))
    return model


def _take_googles_steps(nano) -> tuple[BertForPreTraining, list[list[float]]]:
    """Train on Google's one batch; return the model and the losses before each step."""
    batch, settings = nano.expected, nano.trajectory
    packed, padding = pack_padded(batch["input_ids"], batch["input_mask"].bool(), batch["segment_ids"])
    token_of_cell = torch.full((batch["input_ids"].numel(),), -1)
    token_of_cell[padding.cell_of_token] = torch.arange(packed.num_tokens)
    rows, slots = batch["masked_lm_weights"].nonzero(as_tuple=True)
    cells = rows * batch["input_ids"].shape[1] + batch["masked_lm_positions"][rows, slots]
    masked_lm_ids = batch["masked_lm_ids"][rows, slots].long()
    labels = batch["next_sentence_labels"].flatten()[padding.row_of_sequence].long()

    steps = settings["num_train_steps"]
    model = _model(nano, nano.weights)
    config = OptimizerConfig(
        learning_rate=settings["init_lr"], warmup_fraction=settings["num_warmup_steps"] / steps
    )
    optimizer = build_optimizer(model, config)
    losses = []
    for step in range(steps):
        sums = model.losses(packed, token_of_cell[cells], masked_lm_ids, labels)
        masked = sums.masked_lm_loss_sum / len(masked_lm_ids)
        following = sums.next_sentence_loss_sum / len(labels)
        optimizer.zero_grad()
        (masked + following).backward()
        clip_gradients(model.parameters(), config.max_grad_norm)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step / steps, config)
        optimizer.step()
        losses.append([(masked + following).item(), masked.item(), following.item()])
    return model, losses


def test_twenty_steps_follow_googles_trajectory(google_nano) -> None:
    _, losses = _take_googles_steps(google_nano)
    np.testing.assert_allclose(losses, google_nano.trajectory["losses"], rtol=1e-4)


def test_twenty_steps_end_in_googles_weights(google_nano, shared: Path) -> None:
    model, _ = _take_googles_steps(google_nano)
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
    "wrong", [{"learning_rate": 0.0}, {"warmup_fraction": 1.0}, {"beta2": 1.0}, {"epsilon": 0.0}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        OptimizerConfig(**wrong)
