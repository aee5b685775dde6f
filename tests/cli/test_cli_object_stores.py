"""Commands on files of an object store: the same numbers and bytes as for local files."""

import json
from pathlib import Path
from typing import Any

import pytest
from samples import NANO_TASK, Samples

# s3fs leaves sessions to the garbage collector after their event loop has closed
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::Warning")]

STORE = "s3://library/reviews"


@pytest.fixture
def reviews(bucket: Any, samples: Samples, tmp_path: Path) -> Path:
    """A local directory of labeled data; `STORE` has the same files."""
    directory = tmp_path / "reviews"
    directory.mkdir()
    rows = samples.table.read_text().splitlines(keepends=True)
    (directory / "train.tsv").write_text("".join(rows))
    (directory / "dev.tsv").write_text("".join(rows[:21]))
    (directory / "texts.txt").write_text("".join(row.split("\t")[0] + "\n" for row in rows[1:]))
    for file in directory.iterdir():
        bucket.put_file(str(file), f"library/reviews/{file.name}")
    return directory


def test_remote_data_train_and_score_the_same_model(bucket, samples, reviews, tmp_path, cloze, error_line):
    scores = {}
    for name, data in (("local", reviews), ("remote", STORE)):
        run = tmp_path / name
        cloze(f"finetune classification -m {samples.run} -d {data} -o {run} --quiet", *NANO_TASK)
        scores[name] = cloze(f"evaluate classification -m {run} -d {data}/dev.tsv --json --quiet").json
        of_run = json.loads((run / "scores.json").read_text())
        assert of_run["data"] == scores[name].pop("data") == f"{data}/dev.tsv"
    assert scores["local"] == scores["remote"]
    dev, answers = f"{STORE}/dev.tsv", "s3://library/answers.jsonl"
    cloze(f"evaluate classification -m {tmp_path}/local -d {dev} -o {answers} --quiet")
    scored = cloze(f"score classification {answers} {dev} --json --quiet").json
    assert scored == {"data": dev, **scores["local"]}
    settings = (tmp_path / "remote/run.toml").read_text()
    assert f'train = "{STORE}/train.tsv"' in settings
    digest = [line for line in settings.splitlines() if line.startswith("data_sha256")]
    assert digest[0] in (tmp_path / "local/run.toml").read_text()
    bucket.pipe_file("library/reviews/train.tsv", b"text\tlabel\nother\t1\n")
    assert f"{STORE}/train.tsv: not the data that the settings were made for" in error_line(
        f"finetune classification -o {tmp_path}/remote --resume"
    )


def test_predictions_and_vectors_are_written_to_the_store(bucket, samples, reviews, tmp_path, cloze):
    commands = {
        "answers.jsonl": f"predict classification -m {samples.classifier} {{}}/texts.txt",
        "vectors.npy": f"embed -m {samples.run} {{}}/train.tsv",
    }
    for output, command in commands.items():
        for directory in (reviews, STORE):
            cloze(f"{command.format(directory)} -o {directory}/{output} --quiet")
        assert bucket.cat_file(f"library/reviews/{output}") == (reviews / output).read_bytes()
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


@pytest.mark.protected
def test_output_that_the_store_refuses_is_kept(
    bucket, samples, reviews, tmp_path, monkeypatch, cloze, error_line
):
    output = "s3://library/answers.jsonl"
    command = f"predict classification -m {samples.classifier} {STORE}/texts.txt -o {output} --quiet"
    call = bucket.call_s3

    def fail_on_upload(method: str, *arguments: object, **options: object) -> Any:
        if method == "upload_part":
            raise OSError("Connection reset by peer")
        return call(method, *arguments, **options)

    with monkeypatch.context() as broken:
        broken.setattr(bucket, "call_s3", fail_on_upload)
        printed = cloze(command, code=1)
    message = f"{output}: the store refuses: Connection reset by peer. Copy it from {tmp_path}/cache"
    assert message in printed.err
    assert not bucket.exists("library/answers.jsonl")
    (kept,) = (tmp_path / "cache").rglob("answers.jsonl")
    lines = kept.read_bytes()
    assert lines.count(b"\n") == 40
    cloze(command)
    assert bucket.cat_file("library/answers.jsonl") == lines
    assert not kept.exists()
    assert f"{output}: already exists" in error_line(command)


@pytest.mark.protected
def test_missing_and_forbidden_remote_files_are_reported(bucket, samples, tmp_path, monkeypatch, error_line):
    for verb in (f"predict classification -m {samples.classifier}", f"embed -m {samples.run} -o x.npy"):
        assert "s3://library/none.tsv: no such file" in error_line(f"{verb} s3://library/none.tsv --quiet")
    finetune = f"finetune classification -m {samples.run} -o {tmp_path}/run -d"
    assert "s3://library/none: no such file" in error_line(f"{finetune} s3://library/none")
    bucket.pipe_file("library/folder/other.tsv", b"text\n")
    assert "s3://library/folder: no train.tsv in this directory" in error_line(
        f"{finetune} s3://library/folder"
    )

    async def refuse(*_: object, **__: object) -> None:
        raise PermissionError("Access Denied")

    with monkeypatch.context() as forbidden:
        forbidden.setattr(bucket, "_call_s3", refuse)
        assert "s3://library/secret.tsv: the store refuses: Access Denied" in error_line(
            f"{finetune} s3://library/secret.tsv"
        )
