"""The flags of `cloze corpus` and `cloze vocab` that say how text is read."""

import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shop import Shop

from cloze.cli import main

STORY = "A king had three daughters. The youngest was fair.\nShe had a ball of gold.\n"


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(shlex.split(command))
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def tales(tmp_path: Path) -> Path:
    """Twelve rows of JSON, of which one is short and one holds a control character."""
    folder = tmp_path / "tales"
    folder.mkdir()
    rows = [{"tale": {"body": f"{number}. {STORY}"}} for number in range(10)]
    rows += [{"tale": {"body": "The end."}}, {"tale": {"body": "\x07" + STORY}}]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_a_dry_run_says_what_would_be_read_and_writes_nothing(tales, capsys, tmp_path):
    pq.write_table(pa.table({"tale": [{"body": STORY}]}), tales / "b.parquet")
    for verb in ("corpus", "vocab"):
        code, out, err = run(f"{verb} {tales} --text-field tale.body --dry-run", capsys)
        assert (code, err) == (0, "")
        size = sum(file.stat().st_size for file in tales.iterdir())
        assert out.splitlines() == [
            f"{tales}/a.jsonl: JSON lines",
            f"{tales}/b.parquet: Parquet",
            f"1 stretches, {size:,} bytes on disk",
            f"first document, at {tales}/a.jsonl:1, 2 paragraphs:",
            "    0. A king had three daughters. The youngest was fair.",
            "    She had a ball of gold.",
        ]
    assert sorted(tmp_path.iterdir()) == [tales]
    result = json.loads(run(f"corpus {tales} --text-field tale.body --dry-run --json", capsys)[1])
    assert result["first_document"]["where"] == f"{tales}/a.jsonl:1"


def test_validate_reads_everything_and_writes_nothing(tales, capsys, tmp_path):
    code, out, _ = run(f"corpus {tales} --text-field tale.body --validate --workers 1", capsys)
    assert code == 0
    assert "all of it can be read: 11 documents, 22 lines" in out
    assert "control: 1 documents" in out
    assert "short_documents: 1 documents" in out
    result = json.loads(run(f"vocab {tales} --text-field tale.body --validate --quiet --json", capsys)[1])
    assert (result["documents"], result["cleaning"]["control"]["characters"]) == (11, 1)
    with (tales / "a.jsonl").open("a") as stream:
        stream.write('{"tale": 1}\n')
    code, out, err = run(f"corpus {tales} --text-field tale.body --validate --quiet", capsys)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tales}/a.jsonl:13: no field 'tale.body'")
    assert sorted(tmp_path.iterdir()) == [tales]


def test_steps_of_the_cleaning_can_be_left_out(tales, capsys):
    flags = "--without short_documents --without control"
    out = run(f"corpus {tales} --text-field tale.body --validate --quiet {flags}", capsys)[1]
    assert "all of it can be read: 12 documents, 23 lines" in out
    assert "control" not in out
    code, _, err = run(f"corpus {tales} --validate --without spelling", capsys)
    assert code == 2
    assert "--without" in err


@pytest.mark.parametrize("limit", [3, 11])
def test_a_data_set_of_the_first_documents(tales, shop: Shop, capsys, tmp_path, limit):
    command = f"corpus {tales} --text-field tale.body --vocab {shop.vocab} -o {tmp_path}/out --workers 1"
    code, out, _ = run(f"{command} --limit {limit} --quiet --json", capsys)
    assert code == 0
    assert json.loads(out)["documents"] == min(limit, 10)


def test_a_vocabulary_of_a_table(tales, capsys, tmp_path):
    pq.write_table(pa.table({"body": [STORY] * 9}), tmp_path / "a.parquet")
    code, _, err = run(
        f"vocab {tmp_path}/a.parquet --text-field body -o {tmp_path}/out --size 45 --workers 1", capsys
    )
    assert (code, err.splitlines()[0]) == (0, f"{tmp_path}/a.parquet: Parquet")
    assert "k" in (tmp_path / "out" / "vocab.txt").read_text().split()


@pytest.mark.parametrize(
    ("command", "flag"),
    [("corpus text --vocab v", "--output"), ("corpus text -o out", "--vocab"), ("vocab text", "--output")],
)
def test_without_a_look_the_output_is_needed(capsys, command, flag):
    code, out, err = run(command, capsys)
    assert (code, out) == (2, "")
    assert f"the flag {flag} is missing" in err
