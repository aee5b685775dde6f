"""Wrong names lead to the right ones, in Python's words in Python and in the shell's in the shell."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.cli import main
from cloze.config import setting_names
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.hub import WELL_KNOWN
from cloze.suggestions import MAX_LISTED, did_you_mean, list_names, nearest, no_such_path
from helpers import task_of

ROWS = [("a fine film", "good"), ("a dull film", "bad")] * 4
DATA = {"train": ROWS, "model": "cloze-mini"}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("learning_rat", "learning_rate"),
        ("lr", "learning_rate"),
        ("num_train_epochs", "epochs"),
        ("per_device_train_batch_size", "batch_size"),
        ("weight_decay", "optimizer.weight_decay"),
        ("warmup_ratio", "optimizer.warmup_fraction"),
        ("zzz", None),
    ],
)
def test_keywords_of_similar_names_are_suggested(word: str, name: str | None) -> None:
    keywords = inspect.signature(cloze.finetune).parameters
    assert nearest(word, [*keywords, *setting_names(FinetuneConfig)]) == name


@pytest.mark.parametrize(
    ("keyword", "form"),
    [("lr", "learning_rate=…"), ("weight_decay", 'settings={"optimizer.weight_decay": …}')],
)
def test_an_unknown_keyword_suggests_how_to_write_the_right_one(
    tmp_path: Path, keyword: str, form: str
) -> None:
    with pytest.raises(TypeError) as raised:
        cloze.finetune("classification", output=tmp_path / "run", **DATA, **{keyword: 1e-4})
    message = f"finetune() got an unexpected keyword argument {keyword!r}. Did you mean {form}?"
    assert str(raised.value) == message
    assert not (tmp_path / "run").exists()


def _keywords(function: Any) -> list[str]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is kind]


def test_every_public_function_suggests_its_keywords() -> None:
    """And the methods of public classes with which one loads and asks a model."""
    public = [getattr(cloze, name) for name in cloze.__all__]
    functions = [value for value in public if inspect.isfunction(value)]
    for kind in public:
        functions += [kind.load, kind.__call__] if hasattr(kind, "load") and "encoder" in dir(kind) else []
    for function in filter(_keywords, functions):
        keyword = _keywords(function)[0]
        with pytest.raises(TypeError, match=rf"'{keyword}x'. Did you mean {keyword}=…\?"):
            function(**{f"{keyword}x": 1})


def test_settings_tasks_and_the_module_suggest_their_names() -> None:
    for setting, near in {"epoch": "epochs=…", "lr": "optimizer.learning_rate"}.items():
        with pytest.raises(TypeError, match=rf"FinetuneConfig.*'{setting}'. Did you mean {near}\?"):
            cloze.FinetuneConfig(**{setting: 2})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"Did you mean classification\.label_column\?"):
        task_of("classification", label_colum="stars")
    for name, near in {"FilMask": "FillMask", "predict": "predict_file"}.items():
        with pytest.raises(AttributeError, match=rf"Did you mean cloze.{near}\?"):
            getattr(cloze, name)


@pytest.mark.parametrize(
    ("task", "content", "remedy"),
    [
        ("classification", "words,label\na,x\n", "say which it is with `text_column=NAME`"),
        ("scored-pairs", "text,other,score\na,b,1\n", "with `scored-pairs.pair_column=NAME`"),
        ("stsb", 'sentence1,sentence2,score\na,b,"1,5"\n', "`stsb.decimal=,` reads decimal commas"),
        ("conll2003", "a O\n\nb O\n", "read sentences alone with `conll2003.context=sentence`"),
    ],
)
def test_settings_in_remedies_are_those_of_the_task(
    tmp_path: Path, task: str, content: str, remedy: str
) -> None:
    path = tmp_path / ("a.csv" if "," in content else "a.conll")
    path.write_text(content)
    with pytest.raises(InputError) as raised:
        list(task_of(task).examples(path))
    assert remedy in str(raised.value)


@pytest.mark.parametrize(
    ("words", "near", "is_file"),
    [
        ("audit", "corpus audit", False),
        ("fine-tune", "finetune", False),
        ("eval", "evaluate", False),
        ("corpus audt", "corpus audit", True),
        ("vocab inspct", "vocab inspect", True),
    ],
)
def test_verbs_are_suggested_unless_the_second_word_is_a_file(
    words: str,
    near: str,
    is_file: bool,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words.split()) == 2
    assert capsys.readouterr().err == f"error: no verb {words!r}. Did you mean {near}?\n"
    if is_file:
        Path(words.split()[1]).write_text("a text\n")
        assert main(words.split()) == 2
        assert "the flag --output is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("--learning-rate -1", "--learning-rate: -1.0 is not above 0 and below 1"),
        ("--epochs 0", "--epochs: 0 is not positive"),
        ("--set optimizer.beta1=-1", "--set optimizer.beta1: -1.0 is not at least 0 and below 1"),
        ("--set lr=1", "--set: unknown key lr. Did you mean optimizer.learning_rate?"),
        ("--set optimizer.lr=1", "--set: unknown key optimizer.lr. Did you mean optimizer.learning_rate?"),
        (
            "--set class_weight=x",
            "--set: unknown key class_weight. Did you mean classification.class_weights?",
        ),
        ("--format conl", "--format: 'conl' is not a choice. Did you mean conllu?"),
        ("--config glu", "--config: no recipe 'glu'. Did you mean glue?"),
    ],
)
def test_the_shell_names_flags(
    tmp_path: Path, arguments: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"finetune classification -o {tmp_path}/run -m cloze-mini -d {__file__} {arguments}"
    assert main(command.split()) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_python_names_keywords_and_files(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.write_text("[optimizer]\nlearning_rat = 1e-4\n")
    for keywords, message in (
        ({"learning_rate": -1.0}, "^learning_rate: -1.0 is not above 0 and below 1$"),
        ({"settings": {"optimizer.learning_rate": -1.0}}, r"^optimizer\.learning_rate: -1.0 is not above"),
        ({"config": config}, r"a.toml.*optimizer.learning_rat. Did you mean optimizer.learning_rate\?"),
    ):
        with pytest.raises(InputError, match=message):
            cloze.finetune("classification", output=tmp_path / "run", **DATA, **keywords)  # type: ignore[arg-type]


def test_a_missing_file_suggests_a_near_one_and_what_the_flag_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sst.tsv").touch()
    for wrong in ("data/sst.tsvv", "dat/sst.tsv", "data/sst.csv"):
        assert main(["finetune", "classification", "-o", "run", "-m", "cloze-mini", "-d", wrong]) == 2
        line = f"error: {wrong}: no such file. Did you mean data/sst.tsv?\n"
        assert capsys.readouterr().err == line
    assert main(["vocab", "data/other.txt", "-o", "vocab"]) == 2
    assert capsys.readouterr().err == "error: data/other.txt: no such file\n"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("cloze-mni", "cloze-mini"),
        ("bert-base-uncased", "hf://google-bert/bert-base-uncased"),
        ("bert-base", "hf://google-bert/bert-base-uncased"),
        ("roberta-base", "hf://FacebookAI/roberta-base"),
        ("all-minilm-l6-v2", "hf://sentence-transformers/all-MiniLM-L6-v2"),
        ("my-rum", "my-run"),
        ("nothere", None),  # similar to what is no model
    ],
)
def test_only_models_are_suggested_for_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, model: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("my-run", "notthere"):
        (tmp_path / folder).mkdir()
    (tmp_path / "my-run" / "run.toml").touch()
    (tmp_path / "nothere.parquet").touch()
    with pytest.raises(InputError) as raised:
        cloze.load(name)
    assert ("Did you mean" in str(raised.value)) is (model is not None)
    assert model is None or f"Did you mean {model}?" in str(raised.value)


def test_well_known_models_have_different_names() -> None:
    names = [name.partition("/")[2].lower() for name in WELL_KNOWN]
    assert len({*names}) == len(names)  # without the organization
    assert all(nearest(name, WELL_KNOWN, separators="/").lower().endswith(f"/{name}") for name in names)


def test_no_list_has_more_than_ten_names(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"name{number}" for number in range(30)]
    assert list_names(names).count("name") == MAX_LISTED
    assert did_you_mean("x", names, full_list="cloze tasks").endswith(" and 20 others; cloze tasks lists all")
    for command in ("tasks zzz", "finetune classification -o x -m x -d x --set zzz=1"):
        assert main(command.split()) == 2
        assert capsys.readouterr().err.count(", ") == MAX_LISTED - 1


def test_a_file_is_not_suggested_for_its_ending(tmp_path: Path) -> None:
    (tmp_path / "kaggle-ner.csv").touch()
    for word, near in {
        "kagle-ner.csv": f"Did you mean {tmp_path / 'kaggle-ner.csv'}?",
        "answers.csv": None,
    }.items():
        assert no_such_path(tmp_path / word).remedy == near
