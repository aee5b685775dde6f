"""A study of adaptation at a nano size: samples, held-out text, record, and continuing."""

import json
from pathlib import Path

import pytest

from cloze.pretraining.config import ModelConfig, PhaseConfig, PretrainConfig
from cloze.progress import SILENT
from experiments.__main__ import main
from experiments.adaptation import Adaptation, AdaptationConfig, AdaptationRun
from experiments.adaptation_record import write_adaptation_record
from helpers import grouped, novel_paragraphs
from runs import pretrain

NANO = AdaptationConfig(
    megabytes=(0.02, 0.04),
    seeds=(1, 2),
    min_steps=2,
    held_out_documents=4,
    gap_documents=2,
    max_instances=8,
    task_megabytes=(0.04,),
    train_passages=8,
    test_passages=3,
    epochs=1,
)


@pytest.fixture(scope="module")
def study(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Adaptation:
    directory = tmp_path_factory.mktemp("adaptation")
    model = ModelConfig(
        size=None,
        num_hidden_layers=1,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=128,
    )
    phases = (PhaseConfig(max_seq_length=32, fraction=1, batch_size=8),)
    config = PretrainConfig(data=str(data), steps=1, model=model, phases=phases)
    pretrain(config, directory / "control")
    texts = directory / "novels.txt"
    texts.write_text("\n\n".join(grouped(novel_paragraphs(400))) + "\n", "utf-8")
    study = Adaptation(directory / "control", data, {"novels": texts}, directory / "out", NANO, SILENT)
    study.run()
    return study


@pytest.mark.slow
def test_held_out_documents_are_apart_from_all_samples(study: Adaptation) -> None:
    held_out, pool = study.split("novels")
    assert len(held_out) == 4
    assert len(pool) == 80 - 4 - 2 * 2
    lines = {line for document in held_out for line in document.lines}
    assert lines.isdisjoint(line for document in pool for line in document.lines)


@pytest.mark.slow
def test_a_finished_study_is_recorded_and_not_run_again(study: Adaptation) -> None:
    record = write_adaptation_record(study)
    page = (record / "README.md").read_text("utf-8")
    results = json.loads((record / "results.json").read_text("utf-8"))
    assert [(run["megabytes"], run["seed"]) for run in results["runs"]] == [
        (0.02, 1),
        (0.02, 2),
        (0.04, 1),
        (0.04, 2),
    ]
    before = results["control"]["domains"]["novels"]["masked_lm_loss"]
    after = [run["domain_metrics"]["masked_lm_loss"] for run in results["runs"] if run["megabytes"] == 0.02]
    assert f"{sum(after) / 2:.3f} | {sum(after) / 2 - before:+.3f} (" in page
    assert "task" not in results["runs"][0]
    assert 0 <= results["runs"][2]["task"]["accuracy"] <= 1
    assert (record / "changes.svg").read_text("utf-8").startswith("<?xml")
    file = study.directory(AdaptationRun("novels", 0.02, 1)) / "outcome.json"
    written = file.stat().st_mtime_ns
    study.run()
    assert file.stat().st_mtime_ns == written


@pytest.mark.slow
def test_more_text_than_there_is_is_refused(study: Adaptation, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["adaptation", "-m", str(study.control), "--old", str(study.old)]
    words += ["--texts", f"novels={study.domains['novels']}", "-o", str(study.output.parent / "other")]
    assert main(words) == 2
    assert "too few to hold out 120 with a gap of 60" in capsys.readouterr().err
