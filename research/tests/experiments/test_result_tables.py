"""The paper's tables beside models, with tiny ones that learned nothing."""

import json
from pathlib import Path

import numpy as np
import pytest

from cloze import artifacts
from cloze.tasks.registry import find_task
from experiments.__main__ import main
from tiny_models import SPECIAL, write_finetuned

Capture = pytest.CaptureFixture[str]


def model(path: Path, task: str, seed: int = 1) -> Path:
    sizes = {"num_attention_heads": 2, "max_position_embeddings": 16}
    tokens = (*SPECIAL, "good", "bad", "film", "book")
    return write_finetuned(path, find_task(task), tokens, seed=seed, max_seq_length=16, **sizes)


@pytest.fixture
def sst2(tmp_path: Path) -> Path:
    return model(tmp_path / "sst2", "sst2")


@pytest.mark.slow
def test_a_table_of_the_paper(sst2, tmp_path, capsys):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/dev.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t0\n")
    second = model(tmp_path / "second", "sst2", seed=2)
    base = ["table1", "-d", str(tmp_path), "--device", "cpu", "--quiet"]
    both = [*base, "-m", str(sst2), "-m", str(second), "-m", str(model(tmp_path / "qqp", "qqp"))]
    assert main(both) == 2
    assert "--ensemble" in capsys.readouterr().err
    assert main([*both, "--ensemble", "-o", str(tmp_path / "record")]) == 0
    shown = capsys.readouterr().out
    assert "BERT-Large          " in shown
    assert "yours (ensemble of 2)" in shown
    assert f"QQP: no data, {tmp_path}/QQP" in shown
    assert "RTE: no model for rte" in shown
    artifacts.verify(tmp_path / "record", kind="record")
    record = json.loads((tmp_path / "record/table.json").read_text())
    assert list(record["own"]) == ["SST-2"]
    assert "| BERT-Base | 84.6 |" in (tmp_path / "record/README.md").read_text()


@pytest.mark.parametrize(("table", "rows"), [("table1", 5), ("table2", 10), ("table3", 6), ("table4", 7)])
def test_published_rows(table, rows, capsys):
    assert main([table, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["published"]) == rows
    assert found["own"] == {}
    for scores in found["published"].values():
        if "Average" in scores:
            nine = [value for name, value in scores.items() if name != "Average"]
            assert len(nine) == 9
            assert np.mean(nine) == pytest.approx(scores["Average"], abs=0.11)


def test_invalid_tables_are_refused(sst2, tmp_path, capsys):
    wrong = {
        "table9": "unknown table 'table9'. Did you mean table",
        f"table1 -m {sst2}": "--data: no such file or directory",
        f"table3 -d {tmp_path}": "--data: needs a model",
        f"table1 -m {sst2} -d {tmp_path}": "SST-2: no data",
        f"table4 -m {sst2} -d {tmp_path}": "is for sst2, which is not in table4",
    }
    for command, says in wrong.items():
        assert main([*command.split(), "--quiet"]) == 2
        printed = capsys.readouterr().err
        assert says in printed
        assert printed.count("\n") == 1
