"""The eleven files that GLUE's server scores, in a zip.

The server has the labels of the test data and nobody else does; it takes a file of two columns a task, each of
exactly as many rows as there are test examples.

Source: gluebenchmark.com/faq and /tasks; Wang et al. 2018.
"""

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.ensemble import load_ensemble, models_by_task
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tasks.config import load_task
from cloze.tasks.data import find_data
from cloze.tasks.registry import find_task
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.stsb import STSB
from cloze.tasks.task import AnyTask

_OLDEST = (1980, 1, 1, 0, 0, 0)  # a zip cannot say less; the same predictions are then the same bytes
_HIGHEST_SCORE = 5.0  # of STS-B


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A file of the submission: what it is made from, and how many rows the server expects."""

    name: str
    task: str
    rows: int
    test: tuple[str, ...]
    """Where the test data may be, below the directory of GLUE's data."""
    folder: str
    """Where the training data are."""


SERVER_FILES = (
    ServerFile("CoLA.tsv", "cola", 1063, ("CoLA/test.tsv",), "CoLA"),
    ServerFile("SST-2.tsv", "sst2", 1821, ("SST-2/test.tsv",), "SST-2"),
    ServerFile("MRPC.tsv", "mrpc", 1725, ("MRPC/test.tsv",), "MRPC"),
    ServerFile("STS-B.tsv", "stsb", 1379, ("STS-B/test.tsv",), "STS-B"),
    ServerFile("QQP.tsv", "qqp", 390_965, ("QQP/test.tsv",), "QQP"),
    ServerFile("MNLI-m.tsv", "mnli", 9796, ("MNLI/test_matched.tsv",), "MNLI"),
    ServerFile("MNLI-mm.tsv", "mnli", 9847, ("MNLI/test_mismatched.tsv",), "MNLI"),
    ServerFile("QNLI.tsv", "qnli", 5463, ("QNLI/test.tsv",), "QNLI"),
    ServerFile("RTE.tsv", "rte", 3000, ("RTE/test.tsv",), "RTE"),
    ServerFile("WNLI.tsv", "wnli", 146, ("WNLI/test.tsv",), "WNLI"),
    ServerFile("AX.tsv", "ax", 1104, ("diagnostic/diagnostic.tsv", "AX/test.tsv", "AX/AX.tsv"), "MNLI"),
)
"""Names and sizes are the server's; folders are those of the benchmark's own download."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """A file that models predict."""

    file: ServerFile
    models: tuple[Path, ...]
    test: Path


@dataclass(frozen=True, slots=True)
class _Filled:
    """A file with the same in each row."""

    file: ServerFile
    value: str


def write_submission(
    models: Sequence[Path],
    data: Path,
    path: Path,
    *,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    files: Sequence[ServerFile] = SERVER_FILES,
    progress: Progress = SILENT,
) -> dict[str, str]:
    """Write the zip; return what each file of it is from, as in "run-of-cola" or "majority: 0".

    What can be seen to be wrong is found before anything is predicted, and all is streamed.

    Args:
        models: checkpoints or runs, fine-tuned for GLUE's tasks: their task.toml says which.
        data: the directory of GLUE's data.
        path: the zip.
        fill_majority: whether a task without a model gets the most frequent label of its training data in each
            row, and STS-B its mean score.
        ensemble: whether several models of one task answer as one.
        device: cpu, cuda, mps or auto.
        files: what the server expects.
        progress: where to tell how far it is.

    Raises:
        InputError: a task has no model, a model no task of GLUE's, or test data are missing or of another length.
    """
    by_task = _models_of(models, files, ensemble=ensemble, fill_majority=fill_majority)
    plan = [_planned(file, by_task, data) for file in files]
    with artifacts.write_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for part in plan:
            progress.note(part.file.name)
            entry = zipfile.ZipInfo(part.file.name, _OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as stream:
                stream.write(b"index\tprediction\n")
                for number, value in enumerate(_values(part, device=device, progress=progress)):
                    stream.write(f"{number}\t{value}\n".encode())
    return {
        part.file.name: f"majority: {part.value}"
        if isinstance(part, _Filled)
        else ", ".join(map(str, part.models))
        for part in plan
    }


def _models_of(
    models: Sequence[Path], files: Sequence[ServerFile], *, ensemble: bool, fill_majority: bool
) -> Mapping[str, tuple[Path, ...]]:
    """Return the models for each task that has some."""
    found = models_by_task(models, ensemble=ensemble)
    trained = {find_task(file.task).trained_as or file.task for file in files}
    for task, own in found.items():
        if task not in trained:
            what = f"is for {task}, which is none of GLUE's tasks"
            raise InputError(what, where=own[0], remedy=f"Those are {', '.join(sorted(trained))}")
    by_task = {
        file.task: tuple(found[trained_as])
        for file in files
        if (trained_as := find_task(file.task).trained_as or file.task) in found
    }
    missing = sorted(trained - set(found))
    if missing and not fill_majority:
        remedy = "Give one with -m, or say --fill-majority: each row gets the most frequent label"
        note = ", as the paper did for wnli" if "wnli" in missing else ""
        raise InputError(f"no model for {', '.join(missing)}", where="--model", remedy=remedy + note)
    return by_task


def _planned(file: ServerFile, by_task: Mapping[str, tuple[Path, ...]], data: Path) -> _Answered | _Filled:
    """Say how a file comes to be, having counted its test examples, or found the label to fill it with."""
    if file.task not in by_task:
        return _Filled(file, _majority(file, data))
    there = [data / name for name in file.test if (data / name).is_file()]
    if not there:
        what = f"no {' nor '.join(file.test)} in this directory"
        raise InputError(what, where=data, remedy="Give the directory of GLUE's data, a folder a task")
    task = find_task(file.task)()
    count = sum(1 for _ in task.examples(there[0], labelled=False))
    if count != file.rows:
        what = f"{count:,} examples, GLUE's server wants {file.rows:,} for {file.name}"
        raise InputError(what, where=there[0], remedy="Take the file that the benchmark gives out")
    for model in by_task[file.task]:
        _check_labels(model)
    return _Answered(file, by_task[file.task], there[0])


def _majority(file: ServerFile, data: Path) -> str:
    """Return the most frequent label of the training data, of equally frequent ones the first; of scores the mean."""
    folder = data / file.folder
    if not folder.is_dir():
        remedy = f"{file.name} is filled with the most frequent label of the training data in it"
        raise InputError("no such directory", where=folder, remedy=remedy)
    asked = find_task(file.task)
    task = find_task(asked.trained_as or asked.name)()
    assert isinstance(task, SequenceClassification | STSB)
    targets = (task.target(example) for example in task.examples(find_data(task, folder, "train")))
    if isinstance(task, STSB):
        return _score(_HIGHEST_SCORE * fmean(targets))
    counts = Counter(map(int, targets))
    return task.class_names[max(counts, key=lambda target: (counts[target], -target))]


def _values(part: _Answered | _Filled, *, device: str, progress: Progress) -> Iterator[str]:
    """Yield what stands in each row."""
    if isinstance(part, _Filled):
        yield from (part.value for _ in range(part.file.rows))
        return
    predictor = load_ensemble(part.models, part.file.task, device=device)
    examples = predictor.task.examples(part.test, labelled=False)
    answers = predictor.stream(examples, total=part.file.rows, progress=progress)
    yield from _written(predictor.task, answers)


def _written(task: AnyTask, answers: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Yield predictions as the server wants them: labels by name, scores from 0 to 5."""
    for _, prediction in answers:
        yield _score(prediction) if isinstance(task, STSB) else prediction.label


def _score(score: float) -> str:
    return f"{min(max(score, 0.0), _HIGHEST_SCORE):.5f}"


def _check_labels(model: Path) -> None:
    """Refuse a model whose labels have other names than the server's."""
    found = load_task(resolve_checkpoint(model, "best"))
    task = None if found is None else found[0]
    if isinstance(task, SequenceClassification) and set(task.labels) != set(type(task)().labels):
        what = (
            f"its labels are {', '.join(task.labels)}, GLUE's server wants {', '.join(type(task)().labels)}"
        )
        raise InputError(what, where=model)
