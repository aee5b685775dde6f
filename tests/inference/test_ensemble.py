"""Several models as one, and GLUE's zip, with tiny models that learned nothing."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloze.errors import InputError
from cloze.inference.glue_submission import GLUE_FILES, GlueFile, write_submission
from cloze.inference.load import load_ensemble
from cloze.inference.predictor import Predictor
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from helpers import task_of
from tiny_models import write_finetuned

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "book")
FILES = tuple(replace(file, rows=3 + number) for number, file in enumerate(GLUE_FILES))
COLUMNS = {
    "qqp": "id\tquestion1\tquestion2",
    "qnli": "index\tquestion\tsentence",
    "mrpc": "index\t#1 ID\t#2 ID\t#1 String\t#2 String",
}
SINGLE = ("cola", "sst2")


def model(path: Path, task: Task, seed: int = 1, pieces: tuple[str, ...] = PIECES, length: int = 16) -> Path:
    sizes = {"num_attention_heads": 2, "max_position_embeddings": 16}
    return write_finetuned(path, task, pieces, seed=seed, max_seq_length=length, **sizes)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    names = {file.task for file in GLUE_FILES} - {"ax"}
    return {name: model(place / name, find_task(name)) for name in sorted(names)}


def _rows(file: GlueFile) -> str:
    header = COLUMNS.get(
        file.task, "index\tsentence" if file.task in SINGLE else "index\tsentence1\tsentence2"
    )
    texts = ["good film", "bad", "book book", "good bad", "film"]
    cells = header.count("\t")
    lines = ["\t".join([str(i), *[texts[(i + j) % 5] for j in range(cells)]]) for i in range(file.rows)]
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture
def glue(tmp_path: Path) -> Path:
    for file in FILES:
        path = tmp_path / "glue" / file.test[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_rows(file))
    train = tmp_path / "glue/WNLI/train.tsv"
    train.write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\t1\n1\ta\tb\t0\n2\ta\tb\t1\n")
    return tmp_path / "glue"


@pytest.mark.slow
def test_the_zip_has_the_files_of_the_server(models, glue, tmp_path):
    sources = write_submission(list(models.values()), glue, tmp_path / "a.zip", files=FILES, device="cpu")
    assert list(sources) == [file.name for file in FILES]
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == 11
        for file in FILES:
            head, *rows = archive.read(file.name).decode().splitlines()
            assert head == "index\tprediction"
            assert [row.split("\t")[0] for row in rows] == [str(i) for i in range(file.rows)]
            values = {row.split("\t")[1] for row in rows}
            if file.task == "stsb":
                assert all(0 <= float(value) <= 5 for value in values)
            elif file.task in ("mnli", "ax"):
                assert values <= {"entailment", "neutral", "contradiction"}
            elif file.task in ("qnli", "rte"):
                assert values <= {"entailment", "not_entailment"}
            else:
                assert values <= {"0", "1"}
    write_submission(list(models.values()), glue, tmp_path / "b.zip", files=FILES, device="cpu")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_numbers_of_rows_are_the_servers():
    assert sum(file.rows for file in GLUE_FILES) == 426_309
    assert {file.name: file.rows for file in GLUE_FILES}["QQP.tsv"] == 390_965


def test_a_task_without_a_model_is_filled_on_request(models, glue, tmp_path):
    own = [path for name, path in models.items() if name != "wnli"]
    with pytest.raises(InputError, match=r"no model for wnli\. Give one, or say `fill_majority`"):
        write_submission(own, glue, tmp_path / "a.zip", files=FILES, device="cpu")
    found = write_submission(own, glue, tmp_path / "a.zip", files=FILES, device="cpu", fill_majority=True)
    assert found["WNLI.tsv"] == "majority: 1"
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        rows = next(file.rows for file in FILES if file.name == "WNLI.tsv")
        assert archive.read("WNLI.tsv").decode().splitlines()[1:] == [f"{row}\t1" for row in range(rows)]


@pytest.mark.protected
def test_invalid_submissions_are_refused(models, glue, tmp_path):
    def refused(own: list[Path], says: str) -> None:
        with pytest.raises(InputError, match=says):
            write_submission(own, glue, tmp_path / "a.zip", files=FILES, device="cpu")
        assert not list(tmp_path.glob("*a.zip*"))

    everything = list(models.values())
    refused([*everything, model(tmp_path / "swag", find_task("swag"))], "is for swag, not a task of GLUE")
    refused([*everything, model(tmp_path / "rte2", find_task("rte"))], "is for rte, as .* is.*`ensemble`")
    refused([*everything, models["rte"]], "is given twice")
    refused([*everything, tmp_path / "none"], "no such directory")
    (tmp_path / "empty").mkdir()
    refused([tmp_path / "empty"], "has no task.toml")
    refused(everything[:2], "no model for mrpc, qnli")
    other = model(tmp_path / "rte3", task_of("rte", labels=("yes", "no")))
    refused([*(own for task, own in models.items() if task != "rte"), other], "its labels are yes, no")
    with (glue / "RTE/test.tsv").open("a") as stream:
        stream.write("99\ta\tb\n")
    refused(everything, "12 examples, GLUE's server expects 11 for RTE.tsv")
    (glue / "RTE/test.tsv").unlink()
    refused(everything, "no RTE/test.tsv in this directory")


def test_an_ensemble_averages_logits(tmp_path):
    task = find_task("sst2")
    paths = [model(tmp_path / str(seed), task, seed) for seed in range(3)]
    examples = [example for example in _examples(task, tmp_path)]
    alone = [Predictor.load(path, device="cpu").predict(examples)[0] for path in paths]
    joined, _ = load_ensemble(paths, device="cpu").predict(examples)
    for number, prediction in enumerate(joined):
        odds = [np.log(own[number].probabilities["1"] / own[number].probabilities["0"]) for own in alone]
        found = np.log(prediction.probabilities["1"] / prediction.probabilities["0"])
        assert found == pytest.approx(np.mean(odds), abs=1e-4)
    assert load_ensemble(paths[:1], device="cpu").predict(examples)[0] == alone[0]


def _examples(task: Task, place: Path) -> list:
    (place / "texts.txt").write_text("good film\nbad\nbook\n")
    return list(task.examples(place / "texts.txt", labeled=False))


@pytest.mark.protected
def test_models_that_cannot_be_averaged_are_refused(tmp_path):
    first = model(tmp_path / "first", find_task("mnli"))
    others = {
        "has another tokenizer than": model(
            tmp_path / "a", find_task("mnli"), pieces=(*PIECES[:-2], "book", "film")
        ),
        "reads 12 tokens at once": model(tmp_path / "b", find_task("mnli"), length=12),
        r"labels is \('neutral'": model(
            tmp_path / "c", task_of("mnli", labels=("neutral", "entailment", "contradiction"))
        ),
        "a model for the task 'rte'": model(tmp_path / "d", find_task("rte")),
        "is given twice": first,
    }
    for says, other in others.items():
        with pytest.raises(InputError, match=says):
            load_ensemble([first, other], "mnli", device="cpu")
    single, pairs = (
        model(tmp_path / str(pair), task_of("classification", labels=("a", "b"), pair_column=pair))
        for pair in (None, "pair")
    )
    with pytest.raises(InputError, match=r"pair: pair_column is 'pair', unlike .*None\."):
        load_ensemble([single, pairs], device="cpu")
    with pytest.raises(InputError, match="vectors that stsb-vectors compares cannot be averaged"):
        load_ensemble([first, others["reads 12 tokens at once"]], "stsb-vectors", device="cpu")


def test_thresholds_are_averaged():
    tasks = [task_of("squad_v2", null_threshold=value) for value in (-1.0, -2.0, -6.0)]
    assert tasks[0].averaged(tasks[1:]) == task_of("squad_v2", null_threshold=-3.0)
    sets = [
        task_of("multi-label", labels=("a", "b"), thresholds=value)
        for value in ({"a": 0.1}, {"a": 0.9, "b": 0.3}, 0.5)
    ]
    thresholds = sets[0].averaged(sets[1:]).answer.thresholds  # the sigmoid of the mean logit
    assert thresholds == {"a": pytest.approx(0.5), "b": pytest.approx(0.4298, abs=1e-4)}
    with pytest.raises(InputError, match="doc_stride is 64"):
        tasks[0].averaged([task_of("squad_v2", doc_stride=64)])
