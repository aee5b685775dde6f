"""The flags of `cloze corpus` and `cloze vocab` that select and preview text."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

STORY = "A king had three daughters. The youngest was fair.\nShe had a ball of gold.\n"


@pytest.fixture
def tales(tmp_path: Path) -> Path:
    """Twelve rows of JSON lines: one is short and one has a control character."""
    directory = tmp_path / "tales"
    directory.mkdir()
    rows = [{"tale": {"body": f"{number}. {STORY}"}} for number in range(10)]
    rows += [{"tale": {"body": "The end."}}, {"tale": {"body": "\x07" + STORY}}]
    (directory / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return directory


@pytest.mark.parametrize("verb", ["corpus", "vocab"])
def test_dry_run_shows_the_input_and_writes_nothing(tales, cloze, tmp_path, verb):
    pq.write_table(pa.table({"tale": [{"body": STORY}]}), tales / "b.parquet")
    command = f"{verb} {tales} --text-field tale.body --dry-run"
    size = sum(file.stat().st_size for file in tales.iterdir())
    lines = [
        f"{tales}/a.jsonl: JSON lines",
        f"{tales}/b.parquet: Parquet",
        f"1 input shard, {size:,} bytes on disk",
        f"first document, at {tales}/a.jsonl:1, 2 paragraphs:",
        "    0. A king had three daughters. The youngest was fair.",
        "    She had a ball of gold.",
    ]
    assert cloze(command) == ("\n".join(lines) + "\n", "")
    assert sorted(tmp_path.iterdir()) == [tales]
    assert cloze(f"{command} --json").json["first_document"]["where"] == f"{tales}/a.jsonl:1"


def test_validate_reads_everything_and_writes_nothing(tales, cloze, tmp_path):
    flags = f"{tales} --text-field tale.body --validate --workers 1"
    text = cloze(f"corpus {flags}").out
    assert "all input is readable: 11 documents, 22 lines" in text
    assert "control: 1 documents" in text
    assert "short_documents: 1 documents" in text
    result = cloze(f"vocab {flags} --quiet --json").json
    assert (result["documents"], result["cleaning"]["control"]["characters"]) == (11, 1)
    with (tales / "a.jsonl").open("a") as stream:
        stream.write('{"tale": 1}\n')
    printed = cloze(f"corpus {flags} --quiet", code=2)
    assert printed.out == ""
    assert printed.err.startswith(f"error: {tales}/a.jsonl:13: no field 'tale.body'")
    assert sorted(tmp_path.iterdir()) == [tales]


def test_cleaning_steps_can_be_skipped(tales, samples, cloze, error_line, tmp_path):
    command = f"corpus {tales} --text-field tale.body --vocabulary {samples.vocab} --workers 1 --quiet --json"
    cleaned = cloze(f"{command} -o {tmp_path}/cleaned").json
    assert [cleaned["cleaning"][step]["documents"] for step in ("control", "short_documents")] == [1, 1]
    flags = "--without short_documents --without control"
    kept = cloze(f"{command} -o {tmp_path}/kept {flags}").json
    assert [kept["cleaning"][step]["documents"] for step in ("control", "short_documents")] == [0, 0]
    assert "--without" in error_line(f"corpus {tales} --dry-run --without spelling")
