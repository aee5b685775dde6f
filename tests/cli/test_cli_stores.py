"""The verbs on files of an object store: the same numbers and bytes as from files of this machine."""

import json
from pathlib import Path
from typing import Any

import pytest
from shop import NANO_TASK, Shop

from cloze.cli import main

# what s3fs leaves to the garbage collector, when its loop is gone
pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def cloze(*arguments: object) -> None:
    assert main([*map(str, arguments), "--quiet"]) == 0


@pytest.fixture
def folder(bucket: Any, shop: Shop, tmp_path: Path) -> Path:
    """A folder of this machine, and the same on the store."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    rows = shop.table.read_text().splitlines(keepends=True)
    (folder / "train.tsv").write_text("".join(rows))
    (folder / "dev.tsv").write_text("".join(rows[:21]))
    (folder / "texts.txt").write_text("".join(row.split("\t")[0] + "\n" for row in rows[1:]))
    for file in folder.iterdir():
        bucket.put_file(str(file), f"library/reviews/{file.name}")
    return folder


def test_a_model_is_made_of_a_store_and_scored_on_it(
    bucket: Any, shop: Shop, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {}
    for name, data in (("here", folder), ("there", "s3://library/reviews")):
        cloze("finetune", "classification", "-m", shop.run, "-d", data, "-o", tmp_path / name, *NANO_TASK)
        capsys.readouterr()
        cloze("evaluate", "classification", "-m", tmp_path / name, "-d", f"{data}/dev.tsv", "--json")
        scores[name] = json.loads(capsys.readouterr().out)
        run = json.loads((tmp_path / name / "scores.json").read_text())
        assert run["data"] == scores[name].pop("data") == f"{data}/dev.tsv"
    assert scores["here"] == scores["there"]
    dev, answers = "s3://library/reviews/dev.tsv", "s3://library/answers.jsonl"
    cloze("evaluate", "classification", "-m", tmp_path / "here", "-d", dev, "-o", answers)
    capsys.readouterr()
    cloze("score", "classification", answers, dev, "--json")
    scored = json.loads(capsys.readouterr().out)
    assert scored["data"] == dev
    assert {name: scored[name] for name in scored if name != "data"} == scores["here"]
    settings = (tmp_path / "there/run.toml").read_text()
    assert 'train = "s3://library/reviews/train.tsv"' in settings
    digest = [line for line in settings.splitlines() if line.startswith("data_sha256")]
    assert digest[0] in (tmp_path / "here/run.toml").read_text()
    bucket.pipe_file("library/reviews/train.tsv", b"text\tlabel\nother\t1\n")
    assert main(["finetune", "classification", "-o", str(tmp_path / "there"), "--resume"]) == 2
    told = capsys.readouterr().err
    assert "s3://library/reviews/train.tsv: not the data that the settings were made for" in told


def test_predictions_and_vectors_of_a_store_are_written_to_it(
    bucket: Any, shop: Shop, folder: Path, tmp_path: Path
) -> None:
    bucket.put_file(str(folder / "train.tsv"), "library/train.tsv")
    for verb, name, ending in (("predict", "texts.txt", "jsonl"), ("embed", "train.tsv", "npy")):
        for place in (folder, "s3://library/reviews"):
            output = f"{place}/{verb}.{ending}"
            if verb == "predict":
                cloze("predict", "classification", "-m", shop.classifier, f"{place}/{name}", "-o", output)
            else:
                cloze("embed", "-m", shop.run, f"{place}/{name}", "-o", output)
        written = bucket.cat_file(f"library/reviews/{verb}.{ending}")
        assert written == (folder / f"{verb}.{ending}").read_bytes()
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


def test_what_a_store_refuses_is_kept_here(
    bucket: Any,
    shop: Shop,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = "s3://library/answers.jsonl"
    arguments = ["predict", "classification", "-m", shop.classifier, "s3://library/reviews/texts.txt"]

    ask = bucket.call_s3

    def break_off(method: str, *rest: object, **named: object) -> Any:
        if method == "upload_part":
            raise OSError("Connection reset by peer")
        return ask(method, *rest, **named)

    with monkeypatch.context() as broken:
        broken.setattr(bucket, "call_s3", break_off)
        assert main([*map(str, arguments), "-o", output]) == 1
    told = capsys.readouterr().err
    assert f"{output}: the store refuses: Connection reset by peer. Copy it from {tmp_path}/cache" in told
    assert not bucket.exists("library/answers.jsonl")
    (kept,) = (tmp_path / "cache").rglob("answers.jsonl")
    lines = kept.read_bytes()
    assert lines.count(b"\n") == 40
    cloze(*arguments, "-o", output)
    assert bucket.cat_file("library/answers.jsonl") == lines
    assert not kept.exists()
    assert main([*map(str, arguments), "-o", output]) == 2
    assert f"{output}: exists already" in capsys.readouterr().err


def test_what_is_not_there_is_told(
    bucket: Any,
    shop: Shop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for verb in (
        ["predict", "classification", "-m", shop.classifier],
        ["embed", "-m", shop.run, "-o", "x.npy"],
    ):
        assert main([*map(str, verb), "s3://library/none.tsv", "--quiet"]) == 2
        assert "s3://library/none.tsv: no such file" in capsys.readouterr().err
    command = ["finetune", "classification", "-m", shop.run, "-o", tmp_path / "run", "-d"]
    assert main([*map(str, command), "s3://library/none"]) == 2
    assert "s3://library/none: no such file" in capsys.readouterr().err
    bucket.pipe_file("library/folder/other.tsv", b"text\n")
    assert main([*map(str, command), "s3://library/folder"]) == 2
    assert "s3://library/folder: no train.tsv in this directory" in capsys.readouterr().err

    async def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(bucket, "_call_s3", refuse)
    assert main([*map(str, command), "s3://library/secret.tsv"]) == 2
    assert "s3://library/secret.tsv: the store refuses: Access Denied" in capsys.readouterr().err
    monkeypatch.undo()
