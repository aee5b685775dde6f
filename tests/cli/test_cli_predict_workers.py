"""`cloze predict` and `embed` with several workers give the output of one process."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from samples import Cloze, Samples

from cloze.inference.embedder import Embedder
from cloze.inference.embedding_files import write_vectors
from cloze.inference.load import load_ensemble, stream_predictions
from cloze.parallel_map import RayCluster
from cloze.training.workers import place_workers

# in each worker, too: the order of a sum decides on its last bit
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def texts(samples: Samples, tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    lines = [line for line in samples.text.read_text().splitlines()[:100] if line]
    file.write_text("".join(f"{line}\n" for line in lines * 10))  # several parts
    return file


@pytest.fixture
def predict(samples: Samples, texts: Path, cloze: Cloze) -> Callable[[str], bytes]:
    """Return a function that predicts the texts with more flags, by relative paths."""

    def run(flags: str) -> bytes:
        files = f"{os.path.relpath(texts)} -o {os.path.relpath(texts.with_name('answers.jsonl'))}"
        cloze(f"predict classification -m {samples.classifier} {files} --overwrite --quiet {flags}")
        return texts.with_name("answers.jsonl").read_bytes()

    return run


@pytest.mark.exhaustive
def test_processes_predict_what_one_does(predict, texts):
    expected = predict("")
    assert expected.count(b"\n") == texts.read_bytes().count(b"\n") > 600
    assert predict("--workers 2") == expected


def test_workers_are_refused_for_work_of_one_process(samples, texts, error_line):
    assert "--explain: explanations run in this process. Leave out --workers" in error_line(
        f"predict classification -m {samples.classifier} {texts} --workers 2 --explain"
    )
    assert "workers: one run is made in this process. Ask for several with --seeds" in error_line(
        f"finetune classification -m {samples.run} -d {samples.table} -o run --workers 2"
    )


# Ray leaves sockets and files to the garbage collector, and warns of its own deprecations
@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.exhaustive
def test_a_cluster_predicts_what_one_process_does_when_a_machine_is_lost(
    two_machines, samples, texts, tmp_path, monkeypatch, predict
):
    models = [samples.classifier]
    predictor = load_ensemble(models, device="cpu")
    read = []

    def examples() -> Iterator[Any]:
        for example in predictor.task.examples(texts, labeled=False):
            read.append(example)
            yield example

    all_examples = predictor.task.examples(texts, labeled=False)
    expected = list(predictor.stream(all_examples, part_size=3))
    answers = stream_predictions(
        predictor, models, examples(), place_workers(RayCluster(), "cpu"), part_size=3
    )
    predictions = [next(answers)]
    assert len(read) == 2 * 4 * 3 < len(expected), "examples are read ahead of the work"
    two_machines.remove_node(two_machines.worker_nodes.copy().pop(), allow_graceful=False)
    predictions += answers
    assert predictions == expected
    in_process = predict("")
    monkeypatch.chdir(tmp_path)
    assert predict("--workers ray") == in_process
    for name, workers in (("alone", 1), ("cluster", RayCluster())):
        load, output = partial(Embedder.load, samples.run), f"{name}.npy"
        write_vectors(load, "texts.txt", output, workers=workers, device="cpu", texts_per_part=8)
    assert Path("cluster.npy").read_bytes() == Path("alone.npy").read_bytes()
