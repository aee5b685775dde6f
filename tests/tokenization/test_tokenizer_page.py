"""The table of differences in docs/reference/tokenizer.md has the measured numbers."""

import json
import re
import unicodedata
from pathlib import Path

import pytest

from cloze.tokenization.loading import load_tokenizer

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "tokenizer.md"


@pytest.mark.slow
@pytest.mark.skipif(
    unicodedata.unidata_version != "14.0.0", reason="the table is for Unicode 14, of Python 3.11"
)
def test_table_of_differences(shared):
    with (shared / "golden" / "tokenization.jsonl").open(encoding="utf-8") as stream:
        next(stream)
        rows = [json.loads(line) for line in stream]
    table = re.findall(r"^\| (bert-\S+) \| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(table) == 4
    for name, stated in table:
        tokenizer = load_tokenizer(shared / "data" / "vocab" / name)
        ids, lengths = tokenizer.ids([row["text"] for row in rows])
        tokens = iter(tokenizer.tokens[i] for i in ids)
        ours = [[next(tokens) for _ in range(length)] for length in lengths]
        assert sum(mine != row[name] for mine, row in zip(ours, rows, strict=True)) == int(stated)
