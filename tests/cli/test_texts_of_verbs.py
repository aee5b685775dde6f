"""Every verb reads text through one reader: it accepts its forms, and refuses what the reader refuses."""

import gzip
import json
import lzma
import re
from pathlib import Path

import pytest
from samples import CORPUS, FINETUNE, fill_in

from helpers import novel_paragraphs, read_tree

LINES = [paragraph[:60].replace('"', "") for paragraph in novel_paragraphs(24)]
FILES = {
    "a.txt": LINES,
    "a.jsonl": [json.dumps({"text": line, "label": number % 2}) for number, line in enumerate(LINES)],
    "a.csv": ["text,label", *(f'"{line}",{number % 2}' for number, line in enumerate(LINES))],
    "a.tsv": ["text\tlabel", *(f"{line}\t{number % 2}" for number, line in enumerate(LINES))],
}
VERBS = {
    "vocab {x} -o {out} --size 70 --workers 1": "a.txt",
    CORPUS.replace("{tmp}/text", "{x}"): "a.txt",
    "corpus {x} --validate --workers 1": "a.jsonl",
    "vocab inspect {vocab} {x} --workers 1": "a.txt",
    "embed {x} -m {run} -o {out}.npy": "a.csv",
    "predict classification -m {classifier} {x}": "a.txt",
    "evaluate classification -m {classifier} -d {x}": "a.csv",
    "baseline classification -d {x}": "a.jsonl",
    FINETUNE + "-m {run} -d {x} --validate": "a.tsv",
}
"""By command, in which {x} is a file that it reads. `tests/data/reading/test_text_faults.py` tries all forms."""
SAME = {".txt", ".arrow", ".npy"}
"""Files without a path or time in them."""


@pytest.mark.parametrize(("command", "name"), VERBS.items())
def test_forms_of_a_file_give_the_same(command, name, tmp_path, cloze):
    lines, results = FILES[name], []
    for content in (
        ("\n".join(lines) + "\n").encode(),
        lzma.compress(("\r".join(lines) + "\r").encode("utf-8-sig")),
    ):
        (tmp_path / name).write_bytes(content)
        overwrite = ["--overwrite"] if results and "{out}" in command else []
        printed = cloze(fill_in(command, {"x": tmp_path / name}), "--quiet", *overwrite)
        written = {path: data for path, data in read_tree(tmp_path).items() if Path(path).suffix in SAME}
        written.pop(name, None)
        results.append((re.sub("[0-9,]+ bytes|seconds .*", "", printed.out + printed.err), written))
    assert results[0] == results[1]


@pytest.mark.protected
@pytest.mark.parametrize(("command", "name"), VERBS.items())
def test_damaged_text_is_refused_with_a_remedy(command, name, tmp_path, error_line):
    text = "\n".join(FILES[name]) + "\n"
    compressed = gzip.compress(text.encode())
    for content, where, remedy in (
        (text.encode("utf-16"), f"/{name}:", "iconv"),
        (compressed[: len(compressed) * 2 // 3], f"/{name}: cannot be read: ", "cut short: copy it again"),
    ):
        (tmp_path / name).write_bytes(content)
        line = error_line(fill_in(command, {"x": tmp_path / name}))
        assert where in line
        assert remedy in line
        assert [*read_tree(tmp_path)] == [name]
