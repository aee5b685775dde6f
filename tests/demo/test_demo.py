"""The bundled novels, and the whole demo at a small size."""

import csv
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

import cloze
from cloze.cli import load_verb, main
from cloze.config import read_toml
from cloze.data.reading.formats import read_rows
from cloze.demo.novels import NOVELISTS, read_chapters, split_passages
from cloze.demo.pipeline import MASKED_TEXTS, PAIRS, DemoSize, run_demo, run_stages
from cloze.file_io import sha256_of_file

ROOT = Path(__file__).resolve().parents[2]

SMALL = DemoSize(max_chapters=2, vocabulary_size=1000, pretrain_steps=4, train_passages=4, test_passages=2)


@pytest.mark.parametrize("novelist", NOVELISTS, ids=lambda novelist: novelist.name)
def test_a_novel_starts_with_its_story_and_does_not_name_its_author(novelist):
    for novel in (novelist.train_novel, novelist.test_novel):
        assert novel.author == novelist.name
        book = read_chapters(novel)
        assert " ".join(book[0]).startswith(novel.first_words)
        assert len(book) > 10
        assert sum(map(len, book)) > 2500
        surname = novel.author.lower()
        for sentence in (sentence for chapter in book for sentence in chapter):
            named = [word for word in sentence.split() if word.strip(".,;:'\"").lower() == surname]
            assert not [word for word in named if word[0].isupper()], sentence
            assert "\t" not in sentence
            assert not sentence.startswith("CHAPTER")


def test_there_are_twelve_novels_whose_passages_join_consecutive_sentences():
    assert len({novel.title for n in NOVELISTS for novel in (n.train_novel, n.test_novel)}) == 12
    assert split_passages(["a b", "c", "d e f", "g"], min_words=3) == ["a b c", "d e f"]


@pytest.mark.slow
def test_the_demo_runs_all_stages_and_opens_no_connection(tmp_path, capsys, connections):
    output = tmp_path / "demo run"
    result = run_stages(output, SMALL, workers=1, progress=cloze.Progress())
    progress = capsys.readouterr().err
    assert connections == []
    lines = result.text.splitlines()
    for model in ("this encoder", "cloze-mini"):
        answers = [line.split() for line in lines if line.startswith(f"    {model:<12}  ")]
        assert [len(words) - len(model.split()) for words in answers] == [2 * 5] * len(MASKED_TEXTS)
    assert len(re.findall(r"    this encoder [01]\.\d\d  cloze-mini [01]\.\d\d\n", result.text)) == len(PAIRS)
    assert re.findall(r"\(correct: (\w+)\)", result.text) == [novelist.name for novelist in NOVELISTS]
    assert 0 <= result.scores["accuracy"] <= 1
    assert result.scores["majority_accuracy"] == pytest.approx(1 / 6)
    assert all(path.read_text("utf-8").startswith("<!DOCTYPE html>") for path in result.reports)
    shown = load_verb("demo").show(result)
    assert shown is not None
    table, printed = shown
    assert json.loads(json.dumps(table))["scores"] == result.scores
    assert "always the same author: 16.7%" in printed
    assert str(result.reports[0]) in printed
    assert max(len(line) for line in printed.splitlines() if "Report" not in line) <= 80
    test_rows = list(read_rows(output / "passages" / "tested.tsv", ["passage", "novelist"]))
    assert len(test_rows) == 6 * SMALL.test_passages
    _check_printed_commands(output, progress, capsys)
    with pytest.raises(cloze.InputError, match="already exists"):
        run_demo(output=output)


def _check_printed_commands(output: Path, progress: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [shlex.split(line)[2:] for line in progress.splitlines() if line.strip().startswith("$ cloze")]
    verbs = ["vocab", "corpus", "pretrain", "finetune", "fill", "fill", "next", "predict"]
    assert [command[0] for command in commands] == verbs
    for command, run in ((commands[2], "pretrained"), (commands[3], "novelist")):
        settings = read_toml(output / run / "run.toml")
        assert "budget_seconds" not in settings
        assert (settings["precision"], settings["device"]) == ("float32", "cpu")
        assert main([*command, "--print-config"]) == 0
        from_data = ("data_sha256", "labels")
        printed, kept = (
            [line for line in text.splitlines() if line and not line.startswith(from_data)]
            for text in (capsys.readouterr().out, (output / run / "run.toml").read_text())
        )
        assert printed == kept
    for command in commands[4:]:
        assert main(command) == 0
        assert capsys.readouterr().out


@pytest.mark.exhaustive
def test_the_full_demo_has_the_figures_of_the_pages(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    masked = float(re.search(r"names ([\d.]+)% of the masked tokens", printed)[1])
    authors = float(re.search(r"the author of ([\d.]+)% of the passages", printed)[1])
    for page in ("README.md", "docs/start.md"):
        text = " ".join((ROOT / page).read_text("utf-8").split())
        # the last bits of sums, which differ between processors, change a few answers
        assert float(re.search(r"(\d+)% of the masked tokens", text)[1]) == pytest.approx(masked, abs=2)
        assert float(re.search(r"(\d+)% of the passages", text)[1]) == pytest.approx(authors, abs=4)
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 2


def test_the_examples_are_evenly_spaced_passages_by_author_and_the_novels(tmp_path):
    directory = cloze.write_examples(output=tmp_path / "examples")
    for name, counts, digest in (("authors.csv", 200, "4e00d183"), ("other-books.csv", 30, "e144b8c0")):
        assert sha256_of_file(directory / name).startswith(digest)  # pages show the scores of models on them
        rows = list(csv.DictReader((directory / name).read_text("utf-8").splitlines()))
        assert Counter(row["author"] for row in rows) == dict.fromkeys(("Burnett", "Conrad", "Doyle"), counts)
        assert all(len(row["text"].split()) >= 20 for row in rows)
        assert len({row["text"] for row in rows}) == len(rows)
    assert len(list((directory / "novels").glob("*.xz"))) == 12
    with pytest.raises(cloze.InputError, match="already exists"):
        cloze.write_examples(output=directory)
