"""Fine-tuning that runs out of memory: smaller micro-batches, the same steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from cloze.finetuning.objective import FinetuningObjective
from cloze.training.optimizer import OptimizerConfig
from family_cases import REVIEWS
from runs import finetune, rows

pytestmark = pytest.mark.protected


def _losses(run: Path) -> list[float]:
    return [row["loss"] for row in rows(run)]


def test_halved_micro_batches_give_the_same_step(config, tmp_path, monkeypatch):
    for module in ("bert", "attention", "heads"):  # what is dropped depends on how a step is cut
        monkeypatch.setattr(f"cloze.models.{module}.dropout", lambda hidden, prob: hidden)
    rate = OptimizerConfig(learning_rate=1e-4)
    config = replace(config, dev_fraction=0.1, epochs=1, optimizer=rate, micro_batch_tokens=48)
    expected = tmp_path / "whole"
    finetune(REVIEWS, config, expected)
    forward = FinetuningObjective.forward
    sizes = []

    def refusing(self, batch):
        sizes.append(batch.num_tokens)
        result = forward(self, batch)
        if sizes[-1] > 24 and len(sizes) > 3:
            raise MemoryError
        return result

    monkeypatch.setattr(FinetuningObjective, "forward", refusing)
    finetune(REVIEWS, config, tmp_path / "halved")
    (row,) = rows(tmp_path / "halved", "halved")
    assert row["micro_batch_tokens"] == 24
    assert max(sizes) > 24
    assert _losses(tmp_path / "halved") == pytest.approx(_losses(expected), abs=1e-5)
