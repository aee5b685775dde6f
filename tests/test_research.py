"""Benchmarks and experiments, which `make research` tests, import and run a small case."""

import importlib
import json
import pkgutil

import pytest

import benchmarks
import experiments
from benchmarks.__main__ import main as run_benchmark
from corpora import save_vocabulary
from experiments.__main__ import main as run_experiment


@pytest.mark.parametrize("package", [benchmarks, experiments], ids=lambda package: package.__name__)
def test_every_module_imports(package):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def test_a_benchmark_writes_a_record(tmp_path):
    vocabulary = save_vocabulary(tmp_path / "vocabulary", ["one", "two", "##fold", "."])
    text = tmp_path / "text.txt"
    text.write_text("One twofold two.\n" * 40)
    flags = ["--vocab", str(vocabulary), "--rounds", "1", "--min-seconds", "0", "--quiet"]
    assert run_benchmark(["tokenize", str(text), *flags, "-o", str(tmp_path / "record")]) == 0
    record = json.loads((tmp_path / "record/record.json").read_text())
    assert record["sides"][0]["name"] == "cloze"


def test_an_experiment_prints_the_published_table(capsys):
    assert run_experiment(["table1"]) == 0
    assert "79.6" in capsys.readouterr().out
