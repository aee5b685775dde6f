"""Fine-tuning that runs out of memory: smaller micro-batches, the same steps."""

from pathlib import Path

import pytest

from cloze.tasks.classification import Classification
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.finetune import finetune
from cloze.tasks.work import FinetuningWork
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import OptimizerConfig


def _losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "train"]


def test_a_step_is_the_same_in_halves(
    nano_checkpoint: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("bert", "attention", "heads"):  # what is dropped depends on how a step is cut
        monkeypatch.setattr(f"cloze.model.{module}.dropout", lambda hidden, prob: hidden)
    config = FinetuneConfig(
        model=str(nano_checkpoint),
        train=str(reviews),
        epochs=1,
        batch_size=9,
        max_seq_length=16,
        optimizer=OptimizerConfig(learning_rate=1e-4),
        log_every_steps=1,
        precision="float32",
        device="cpu",
        micro_batch_tokens=48,
    )
    task = Classification(text_column="review", label_column="liked")
    expected = tmp_path / "whole"
    finetune(task, config, expected)
    loss = FinetuningWork.loss
    sizes = []

    def refusing(self, model, batch, step):
        sizes.append(batch.packed.num_tokens)
        result = loss(self, model, batch, step)
        if sizes[-1] > 24 and len(sizes) > 3:
            raise MemoryError
        return result

    monkeypatch.setattr(FinetuningWork, "loss", refusing)
    finetune(task, config, tmp_path / "halved")
    (row,) = [row for row in read_metrics(tmp_path / "halved") if row["kind"] == "halved"]
    assert row["micro_batch_tokens"] == 24
    assert max(sizes) > 24
    assert _losses(tmp_path / "halved") == pytest.approx(_losses(expected), abs=1e-5)
