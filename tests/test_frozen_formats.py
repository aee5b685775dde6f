"""Directories that cloze 0.1 wrote are read, and answer as they did: `golden/format-1` never changes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze import artifacts
from cloze.cli import main

FORMAT = Path(__file__).parent / "golden/format-1"
ANSWERS = json.loads((FORMAT / "answers.json").read_text("utf-8"))
pytestmark = pytest.mark.protected


@pytest.mark.parametrize("name", ["vocabulary", "dataset", "run", "classifier", "graph", "graph-int8"])
def test_its_files_are_as_they_were_written(name):
    described = cloze.info(FORMAT / name)
    assert sum(described.checked.values()) >= 2
    for path in described.checked:
        assert artifacts.read_manifest(Path(path)).format_version == 1


def test_an_encoder_fills_masks_and_embeds_as_it_did():
    fill_mask = cloze.FillMask.load(FORMAT / "run", device="cpu")
    (candidates,) = fill_mask("The hound was on the [MASK].", top_k=5)
    found = {candidate.token: candidate.probability for candidate in candidates}
    assert found == pytest.approx(ANSWERS["fill"], abs=1e-5)
    (vector,) = cloze.Embedder.load(FORMAT / "run", device="cpu")(["the hound"])
    assert vector.tolist() == pytest.approx(ANSWERS["vector"], abs=1e-5)


@pytest.mark.parametrize(("name", "tolerance"), [("classifier", 1e-5), ("graph", 1e-5), ("graph-int8", 1e-3)])
def test_a_classifier_and_its_graphs_answer_as_they_did(name, tolerance):
    if name != "classifier":
        pytest.importorskip("onnxruntime")
    model: Any = cloze.TextClassifier.load(FORMAT / name, device="cpu")
    probabilities = model("a fine film of moor").probabilities
    assert probabilities == pytest.approx(ANSWERS[name], abs=tolerance)


@pytest.mark.slow
def test_a_run_is_repeated_from_its_settings_and_trained_further_on_its_data(tmp_path):
    shutil.copytree(FORMAT, tmp_path, symlinks=True, dirs_exist_ok=True)
    common = ["--data", str(tmp_path / "dataset"), "--quiet", "-o", str(tmp_path / "more")]
    assert main(["pretrain", "--config", str(tmp_path / "run/run.toml"), *common]) == 0
    again = (tmp_path / "more/model.safetensors").read_bytes()
    assert len(again) == (tmp_path / "run/model.safetensors").stat().st_size
    init = ["pretrain", "--init", str(tmp_path / "run"), "--steps", "1", "--overwrite"]
    assert main([*init, *common, "--set", "device=cpu"]) == 0
