"""Write the zip of eleven files that GLUE's server scores.

The labels of the test data are not public. The server takes a file of two columns per task, with exactly one row per
test example.

Source: gluebenchmark.com/faq and /tasks; Wang et al. 2018.
"""

import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import fmean

from cloze import file_io
from cloze.errors import InputError
from cloze.inference.load import group_models_by_task, load_ensemble
from cloze.model_paths import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.config import load_task
from cloze.tasks.data import find_split_file
from cloze.tasks.registry import find_task

_OLDEST = (1980, 1, 1, 0, 0, 0)  # the earliest date of a zip: equal predictions give equal bytes
_HIGHEST_SCORE = 5.0  # of STS-B


@dataclass(frozen=True, slots=True)
class GlueFile:
    """A file of the submission."""

    name: str
    task: str
    rows: int
    test: tuple[str, ...]
    """Possible test files, relative to the directory of GLUE's data."""
    folder: str
    """Directory of the training data."""


GLUE_FILES = (
    GlueFile("CoLA.tsv", "cola", 1063, ("CoLA/test.tsv",), "CoLA"),
    GlueFile("SST-2.tsv", "sst2", 1821, ("SST-2/test.tsv",), "SST-2"),
    GlueFile("MRPC.tsv", "mrpc", 1725, ("MRPC/test.tsv",), "MRPC"),
    GlueFile("STS-B.tsv", "stsb", 1379, ("STS-B/test.tsv",), "STS-B"),
    GlueFile("QQP.tsv", "qqp", 390_965, ("QQP/test.tsv",), "QQP"),
    GlueFile("MNLI-m.tsv", "mnli", 9796, ("MNLI/test_matched.tsv",), "MNLI"),
    GlueFile("MNLI-mm.tsv", "mnli", 9847, ("MNLI/test_mismatched.tsv",), "MNLI"),
    GlueFile("QNLI.tsv", "qnli", 5463, ("QNLI/test.tsv",), "QNLI"),
    GlueFile("RTE.tsv", "rte", 3000, ("RTE/test.tsv",), "RTE"),
    GlueFile("WNLI.tsv", "wnli", 146, ("WNLI/test.tsv",), "WNLI"),
    GlueFile("AX.tsv", "ax", 1104, ("diagnostic/diagnostic.tsv", "AX/test.tsv", "AX/AX.tsv"), "MNLI"),
)
"""Names and sizes are the server's; folders are those of the benchmark's download."""


def write_submission(
    models: Sequence[Path | str],
    data: Path,
    path: Path,
    *,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    files: Sequence[GlueFile] = GLUE_FILES,
    progress: Progress = SILENT,
) -> dict[str, str]:
    """Write the zip; return the source of each file, as in "run-of-cola" or "majority: 0".

    Models and test data are checked before the first prediction. `fill_majority` fills the file of a task without a
    model with the most frequent label of its training data, or for STS-B the mean score.
    """
    by_task = _models_by_task(models, files, ensemble=ensemble, fill_majority=fill_majority)
    sources = {}
    planned: list[tuple[GlueFile, Callable[[], Iterable[str]]]] = []
    for file in files:
        if own_models := by_task.get(file.task):
            sources[file.name] = ", ".join(map(str, own_models))
            test = _find_test_file(file, own_models, data)
            planned.append((file, partial(_predict, file, own_models, test, device, progress)))
        else:
            value = _majority(file, data)
            sources[file.name] = f"majority: {value}"
            planned.append((file, partial(repeat, value, file.rows)))
    with file_io.write_file(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for file, values in planned:
            progress.note(file.name)
            entry = zipfile.ZipInfo(file.name, _OLDEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as stream:
                stream.write(b"index\tprediction\n")
                for number, value in enumerate(values()):
                    stream.write(f"{number}\t{value}\n".encode())
    return sources


def _models_by_task(
    models: Sequence[Path | str], files: Sequence[GlueFile], *, ensemble: bool, fill_majority: bool
) -> Mapping[str, tuple[Path | str, ...]]:
    """Return the models for the task of each file that has some."""
    models_of = group_models_by_task(models, ensemble=ensemble)
    trained_as = {file.task: find_task(file.task).trained_as or file.task for file in files}
    trained = set(trained_as.values())
    for task, own_models in models_of.items():
        if task not in trained:
            remedy = f"Those are {', '.join(sorted(trained))}"
            raise InputError(f"is for {task}, not a task of GLUE", where=own_models[0], remedy=remedy)
    missing = sorted(trained - set(models_of))
    if missing and not fill_majority:
        remedy = "Give one, or say `fill_majority`: each row gets the most frequent label"
        raise InputError(f"no model for {', '.join(missing)}", where="model", remedy=remedy)
    return {task: tuple(models_of[other]) for task, other in trained_as.items() if other in models_of}


def _find_test_file(file: GlueFile, models: Sequence[Path | str], data: Path) -> Path:
    """Return the test data of a file; refuse another number of rows, and models with other labels."""
    test = next((data / name for name in file.test if (data / name).is_file()), None)
    if test is None:
        what = f"no {' nor '.join(file.test)} in this directory"
        raise InputError(what, where=data, remedy="Give the directory of GLUE's data, a folder per task")
    count = sum(1 for _ in find_task(file.task).examples(test, labeled=False))
    if count != file.rows:
        what = f"{count:,} examples, GLUE's server expects {file.rows:,} for {file.name}"
        raise InputError(what, where=test, remedy="Use the file that the benchmark distributes")
    for model in models:
        stored = load_task(resolve_checkpoint(model))
        assert stored is not None
        labels, expected = stored[0].answer.class_names, find_task(stored[0].name).answer.class_names
        if set(labels) != set(expected):
            what = f"its labels are {', '.join(labels)}, GLUE's server expects {', '.join(expected)}"
            raise InputError(what, where=model)
    return test


def _majority(file: GlueFile, data: Path) -> str:
    """Return the most frequent label of the training data, the first of equally frequent ones; or the mean score."""
    folder = data / file.folder
    if not folder.is_dir():
        remedy = f"{file.name} is filled with the most frequent label of its training data"
        raise InputError("no such directory", where=folder, remedy=remedy)
    task = find_task(find_task(file.task).trained_as or file.task)
    assert isinstance(task.answer, OneLabel | Number)
    answer, examples = task.answer, task.examples(find_split_file(task, folder, "train"))
    targets = [answer.target(example.gold) for example in examples]
    if isinstance(task.answer, Number):
        return _format_score(_HIGHEST_SCORE * fmean(targets))
    counts = Counter(map(int, targets))
    return task.answer.class_names[max(counts, key=lambda target: (counts[target], -target))]


def _predict(
    file: GlueFile, models: Sequence[Path | str], test: Path, device: str, progress: Progress
) -> Iterator[str]:
    """Yield the value of each row: a label's name, or a score from 0 to 5."""
    predictor = load_ensemble(models, file.task, device=device)
    examples = predictor.task.examples(test, labeled=False)
    for _, prediction in predictor.stream(examples, total=file.rows, progress=progress):
        yield _format_score(prediction) if isinstance(predictor.task.answer, Number) else prediction.label


def _format_score(score: float) -> str:
    return f"{min(max(score, 0.0), _HIGHEST_SCORE):.5f}"
