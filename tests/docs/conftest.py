"""Small data and models that the pages name."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cloze import write_examples
from cloze.cli import main
from helpers import compress_zstd, grouped, make_once, novel_paragraphs

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / folder) for folder in ("cli", "serving", "tasks")]
# for samples.py, server_process.py and families.py

from samples import NANO, NANO_TASK, REPOSITORY  # noqa: E402

from family_cases import CASES  # noqa: E402


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Data and models of the pages, by name."""
    return {path.name: path for path in make_once(tmp_path_factory, "stock", _make_stock).iterdir()}


def _make_stock(place: Path) -> None:
    _write_texts(place)
    _write_tables(place)

    def run(command: str) -> None:
        words = [str(place / word[1:]) if word.startswith("@") else word for word in shlex.split(command)]
        assert main([*words, "--quiet"]) == 0, command

    small, windows = shlex.join(NANO), "--set=squad_v1.max_query_length=8 --set=squad_v1.doc_stride=8"
    task = shlex.join(NANO_TASK)
    run("vocab @texts -o @vocab --size 500 --workers 1")
    run("corpus @texts --vocabulary @vocab -o @data --workers 1 --validation-fraction 0.1")
    run(f"pretrain --data @data -o @run --steps 4 {small} --set=model.max_position_embeddings=512")
    run(f"finetune classification -m @run -d @reviews.tsv -o @reviews {task}")
    run(f"finetune classification -m @run -d @examples/authors.csv --label-column author -o @authors {task}")
    run(f"finetune squad_v1 -m @run -d @squad.json --dev @squad.json -o @squad --seeds 2 {task} {windows}")
    newest = max((place / "run" / "checkpoints").iterdir())
    (place / "checkpoint").symlink_to(newest)
    (place / "demo-run").mkdir()
    for name, made in (("pretrained", "run"), ("novelist", "reviews")):
        (place / "demo-run" / name).symlink_to(place / made)
    (place / "records").symlink_to(REPOSITORY / "records")


@pytest.fixture(scope="session")
def google_bert(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A TensorFlow checkpoint that Google's code wrote."""
    golden, google = shared / "golden" / "google-nano", tmp_path_factory.mktemp("google")
    for file in (golden / "bert_config.json", golden / "vocab.txt", *(golden / "step0").iterdir()):
        (google / file.name).write_bytes(file.read_bytes())
    return google


@pytest.fixture(scope="session")
def old_model(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in the format of old versions of transformers."""
    old = tmp_path_factory.mktemp("old")
    for name in ("config.json", "vocab.txt"):
        (old / name).write_bytes((minilm / name).read_bytes())
    torch.save(load_file(minilm / "model.safetensors"), old / "pytorch_model.bin")
    return old


def _write_texts(place: Path) -> None:
    groups = [f"{document}\n" for document in grouped(novel_paragraphs(400))]
    (place / "texts").mkdir()
    (place / "texts" / "first.txt").write_text("\n".join(groups[:60]), "utf-8")
    (place / "texts" / "second.txt").write_text("\n".join(groups[60:]), "utf-8")
    (place / "text.txt").write_text("\n".join(groups), "utf-8")
    of_a_field = "".join(f"The hound number {i}.\nA hound on the moor, a baronet.\n\n" for i in range(40))
    (place / "field.txt").write_text(of_a_field, "utf-8")
    rows = "".join(json.dumps({"text": f"Page {i}. {group}"}) + "\n" for i, group in enumerate(groups[:20]))
    (place / "crawl").mkdir()
    (place / "crawl" / "page.jsonl.zst").write_bytes(compress_zstd(rows.encode()))
    lines = [paragraph[:60] for paragraph in novel_paragraphs(20)]
    (place / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    table = "".join(f"{line}\t{('negative', 'positive')[i % 2]}\n" for i, line in enumerate(lines))
    (place / "reviews.tsv").write_text("text\tlabel\n" + table, "utf-8")
    rows = "A fine film with fine music.,0,1,1\nTwo hours that I would like back.,1,0,0\n" * 20
    (place / "films.csv").write_text("text,negative,positive,music\n" + rows, "utf-8")
    (place / "labeled.csv").write_text("text,label\n" + "A fine film.,good\nA dull film.,bad\n" * 20, "utf-8")
    (place / "blanks.tsv").write_text("text\tanswer\nThe hound ran [MASK] the moor.\tover\n", "utf-8")
    write_examples(output=place / "examples")
    for name, step in (("authors.csv", 20), ("other-books.csv", 10)):
        head, *rows = (place / "examples" / name).read_text("utf-8").splitlines(keepends=True)
        (place / "examples" / name).write_text(head + "".join(rows[::step]), "utf-8")
    (place / "stars.tsv").write_text("text\tstars\n" + table, "utf-8")


def _write_tables(place: Path) -> None:
    """Write the examples of the contract tests, repeated, to the file names of the benchmarks."""
    for folder, task in (("CoLA", "cola"), ("MRPC", "mrpc"), ("STS-B", "stsb")):
        (place / "glue" / folder).mkdir(parents=True)
        head, rows = _head_and_rows(CASES[task].content, has_head=task != "cola")
        for part in ("train", "dev", "test"):
            (place / "glue" / folder / f"{part}.tsv").write_text(head + rows * 6, "utf-8")
    for version in (1, 2):
        (place / f"squad{'' if version == 1 else '2'}.json").write_text(CASES[f"squad_v{version}"].content)
    (place / "dev").mkdir()
    (place / "dev" / "dev-v1.1.json").write_text(CASES["squad_v1"].content)
    questions = [
        question["id"]
        for article in json.loads(CASES["squad_v2"].content)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    (place / "predictions.json").write_text(json.dumps(dict.fromkeys(questions, "film")))
    (place / "null_odds.json").write_text(json.dumps(dict.fromkeys(questions, -1.0)))
    tagged = CASES["tagging"].content * 4
    (place / "tagged.conll").write_text(tagged)
    lines = [line and f"{line}\t{line.split(chr(9))[-1]}" for line in tagged.splitlines()]
    (place / "both.conll").write_text("\n".join(lines) + "\n")
    judged = [json.loads(line) for line in CASES["ranking"].content.splitlines()]
    table = "".join(
        f"{row['query']} {i}\t{row['passage']}\t{row['label']}\n" for i in range(3) for row in judged
    )
    (place / "judged.tsv").write_text("query\tpassage\tlabel\n" + table)
    (place / "scored.tsv").write_text(
        "text\tpair\tscore\n" + "A film.\tA movie.\t4\nA film.\tA cat.\t1\n" * 10
    )
    pairs = "".join(f"A film of {i}.\tA movie of {i}.\n" for i in range(20))
    (place / "pairs.tsv").write_text("text\tpair\n" + pairs)


def _head_and_rows(content: str, *, has_head: bool) -> tuple[str, str]:
    head, _, rows = content.partition("\n")
    return (f"{head}\n", rows) if has_head else ("", content)
