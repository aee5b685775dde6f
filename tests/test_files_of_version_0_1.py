"""Files that version 0.1 wrote load to the same bits, and its interrupted runs resume to where they would have ended.

`tests/golden/version-0.1` holds a data set, two pre-training runs stopped after two of four steps (AdamW, Muon with
averaged weights), a classifier, a tagger and vectors of the first run's encoder, with what version 0.1 made of them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from cloze.cli import main

pytestmark = pytest.mark.protected

GOLDEN = Path(__file__).resolve().parent / "golden" / "version-0.1"
ULPS = {"rtol": 1e-5, "atol": 1e-6}  # processors differ in the order in which they add
# The products of Muon are in bfloat16 where the processor is faster with it, as it was for the run in `golden`.
# In float32 the matrices differ by up to 1.5e-5; two steps move them by up to 3e-4.
MUON = {"rtol": 0, "atol": 3e-5}


@pytest.fixture
def old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", ["data", "run", "muon-run", "classifier", "tagger"])
def test_info_finds_every_directory_whole(path, old_files, capsys):
    assert main(["info", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("run", ["run", "muon-run"])
def test_an_interrupted_run_resumes_to_the_weights_it_would_have_had(run, old_files):
    assert main(["pretrain", "-o", run, "--resume", "--quiet"]) == 0
    weights = load_file(old_files / run / "checkpoints" / "step-00000004" / "model.safetensors")
    expected = load_file(GOLDEN / f"{run}-step-4.safetensors")
    assert weights.keys() == expected.keys()
    for name, tensor in expected.items():
        is_muon_matrix = run == "muon-run" and "encoder.layer." in name and tensor.ndim == 2
        tolerance = MUON if is_muon_matrix else ULPS
        np.testing.assert_allclose(weights[name], tensor, err_msg=name, **tolerance)


def test_a_changed_setting_of_an_old_run_is_refused(old_files, capsys):
    settings = old_files / "run" / "run.toml"
    settings.write_text(settings.read_text().replace("seed = 12345", "seed = 1"))
    assert main(["pretrain", "-o", "run", "--resume", "--quiet"]) == 2
    assert "seed" in capsys.readouterr().err


def test_an_old_classifier_predicts_the_same(old_files, capsys):
    assert main(["predict", "classification", "-m", "classifier", "lines.txt", "--quiet"]) == 0
    expected = _json_lines((GOLDEN / "predictions.jsonl").read_text())
    _assert_same(_without_inputs(capsys.readouterr().out, expected), expected)


def test_an_old_tagger_predicts_the_same(old_files, capsys):
    assert main(["predict", "tagging", "-m", "tagger", "tags.conll", "--quiet"]) == 0
    expected = _json_lines((GOLDEN / "tagger-predictions.jsonl").read_text())
    _assert_same(_without_inputs(capsys.readouterr().out, expected), expected)


def test_an_old_encoder_embeds_the_same(old_files):
    assert main(["embed", "-m", "run", "lines.txt", "-o", "new.npy", "--quiet"]) == 0
    np.testing.assert_allclose(np.load("new.npy"), np.load(GOLDEN / "vectors.npy"), **ULPS)


def test_old_vectors_are_searched_as_they_are(old_files, capsys):
    table = pq.read_table(GOLDEN / "vectors.parquet")
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), np.load(GOLDEN / "vectors.npy"))
    assert (
        main(["neighbors", "moor", "--among", "vectors.parquet", "-m", "run", "-k", "1", "--json", "--quiet"])
        == 0
    )
    [nearest] = json.loads(capsys.readouterr().out)
    assert nearest["row"] == 4


def _without_inputs(printed: str, expected: list[Any]) -> list[Any]:
    """Return predictions without the row and the text, which version 0.1 did not print."""
    rows = _json_lines(printed)
    assert all(row.keys() - of.keys() <= {"row", "text"} for row, of in zip(rows, expected, strict=True))
    return [{key: row[key] for key in of} for row, of in zip(rows, expected, strict=True)]


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _assert_same(values: Any, expected: Any) -> None:
    """Compare JSON values: numbers nearly, everything else exactly."""
    if isinstance(expected, float):
        assert values == pytest.approx(expected, rel=1e-4, abs=1e-6)
    elif isinstance(expected, dict):
        assert values.keys() == expected.keys()
        for key, value in expected.items():
            _assert_same(values[key], value)
    elif isinstance(expected, list):
        assert len(values) == len(expected)
        for value, of in zip(values, expected, strict=True):
            _assert_same(value, of)
    else:
        assert values == expected
