"""`cloze predict` and `embed` by several workers: the same lines and vectors as in one process, in the same order."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shop import Shop

from cloze.cli import main
from cloze.inference import embedding_files, predictor
from cloze.inference.ensemble import load_ensemble
from cloze.inference.parallel import stream_answers
from cloze.ray_cluster import RayCluster
from cloze.training.workers import find_workplace


@pytest.fixture(autouse=True)
def _small_parts_in_one_thread(one_thread: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and each worker compute with one: how a sum is parted decides on its last bit."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(predictor, "_EXAMPLES_AT_ONCE", 3)


@pytest.fixture
def texts(shop: Shop, tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("".join(line + "\n" for line in shop.text.read_text().splitlines()[:100] if line))
    return file


def predict(shop: Shop, texts: Path, output: Path, *more: str) -> bytes:
    command = ["predict", "classification", "-m", shop.classifier, texts, "-o", output, "--quiet", *more]
    assert main([*map(str, command)]) == 0
    return output.read_bytes()


@pytest.mark.long
def test_processes_print_what_one_does(shop: Shop, texts: Path, tmp_path: Path) -> None:
    alone = predict(shop, texts, tmp_path / "alone.jsonl")
    assert alone.count(b"\n") == texts.read_bytes().count(b"\n") > 60
    assert predict(shop, texts, tmp_path / "both.jsonl", "--workers", "2") == alone


def test_what_one_process_does_wants_no_workers(
    shop: Shop, texts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["predict", "classification", "-m", shop.classifier, texts, "--workers", "2", "--explain"]
    assert main([*map(str, command)]) == 2
    assert "--explain: explanations are made in this process. Leave out --workers" in capsys.readouterr().err
    command = ["finetune", "classification", "-m", shop.run, "-d", shop.table, "-o", "run", "--workers", "2"]
    assert main([*map(str, command)]) == 2
    assert "workers: one run is made in this process. Ask for several with --seeds" in capsys.readouterr().err


# Ray's own modules leave sockets and files to the garbage collector, and name what they will not need any more
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.long
def test_a_cluster_prints_what_one_process_does_when_a_machine_is_lost(
    two_machines: Any, shop: Shop, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [shop.classifier]
    here = load_ensemble(models, device="cpu")
    drawn = []

    def examples() -> Iterator[Any]:
        for example in here.task.examples(texts, labelled=False):
            drawn.append(example)
            yield example

    expected = list(here.stream(here.task.examples(texts, labelled=False)))
    answers = stream_answers(here, models, examples(), find_workplace(RayCluster(), "cpu"))
    found = [next(answers)]
    assert len(drawn) == 2 * 4 * 3 < len(expected), "more was read than what is under way"
    two_machines.remove_node(two_machines.worker_nodes.copy().pop(), allow_graceful=False)
    found += answers
    assert found == expected
    alone = predict(shop, texts, tmp_path / "alone.jsonl")
    monkeypatch.chdir(tmp_path)
    assert predict(shop, Path("texts.txt"), Path("cluster.jsonl"), "--executor", "ray") == alone
    monkeypatch.setattr(embedding_files, "_TEXTS_AT_ONCE", 8)
    for name, where in (("alone", "local"), ("cluster", "ray")):
        command = f"embed -m {shop.run} texts.txt -o {name}.npy --executor {where} --quiet"
        assert main(command.split()) == 0
    assert Path("cluster.npy").read_bytes() == Path("alone.npy").read_bytes()
