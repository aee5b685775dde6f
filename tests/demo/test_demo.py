"""The demo: its texts, and the whole of it at a size that takes seconds."""

import shlex
from pathlib import Path

import pytest

from cloze import config as configuration
from cloze.cli import main
from cloze.cli.common import find_recipe
from cloze.cli.demo import _describe
from cloze.demo.life import DemoSize, run_demo
from cloze.demo.novels import NOVELISTS, chapters, passages
from cloze.errors import InputError
from cloze.pretraining.config import PretrainConfig
from cloze.progress import Progress
from cloze.tasks.tables import read_rows

SMALL = DemoSize(
    vocabulary_size=1000, pretrain_seconds=4, finetune_seconds=4, learned_passages=20, tested_passages=5
)
SURNAMES = ("brontë", "bronte", "burnett", "conrad", "dickens", "doyle", "hardy", "currer bell")


@pytest.mark.parametrize("novelist", NOVELISTS, ids=lambda novelist: novelist.name)
def test_a_novel_begins_with_its_story_and_never_names_its_author(novelist) -> None:
    for novel in (novelist.learned, novelist.tested):
        book = chapters(novel)
        assert " ".join(book[0]).startswith(novel.first_words)
        assert len(book) > 10
        assert sum(map(len, book)) > 2500
        surname = novel.author.lower()
        for sentence in (sentence for chapter in book for sentence in chapter):
            named = [word for word in sentence.split() if word.strip(".,;:'\"").lower() == surname]
            assert not [word for word in named if word[0].isupper()], sentence
            assert "\t" not in sentence
            assert not sentence.startswith("CHAPTER")


def test_both_books_of_a_novelist_are_different_ones() -> None:
    titles = [novel.title for novelist in NOVELISTS for novel in (novelist.learned, novelist.tested)]
    assert len(set(titles)) == 12
    assert all(novel.author == n.name for n in NOVELISTS for novel in (n.learned, n.tested))


def test_passages_are_neighbours_of_enough_words() -> None:
    assert passages(["a b", "c", "d e f", "g"], min_words=3) == ["a b c", "d e f"]


def test_the_whole_life(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "demo run"
    result = run_demo(output, size=SMALL, progress=Progress())
    told = capsys.readouterr().err
    assert len(result.masks) == 2 * 5
    assert {answer.model for answer in result.masks} == {"this encoder", "cloze-mini"}
    assert all(len(answer.answers) == 5 for answer in result.masks)
    assert all(0 <= probability <= 1 for *_, probability in result.next_sentences)
    assert [answer.truth for answer in result.novelists] == [novelist.name for novelist in NOVELISTS]
    assert 0 <= result.scores["accuracy"] <= 1
    assert result.scores["majority_accuracy"] == pytest.approx(1 / 6)
    assert all(path.read_text("utf-8").startswith("<!DOCTYPE html>") for path in result.reports)
    for text in ("Novelists of unseen books:", "always the most frequent one: 16.7%", str(result.reports[0])):
        assert text in _describe(result)
    tested = list(read_rows(output / "passages" / "tested.tsv", ["passage", "novelist"]))
    assert len(tested) == 6 * SMALL.tested_passages
    _the_printed_commands_are_what_ran(output, told, capsys)
    with pytest.raises(InputError, match="exists already"):
        run_demo(output, size=SMALL)


def _the_printed_commands_are_what_ran(output: Path, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [shlex.split(line)[2:] for line in told.splitlines() if line.strip().startswith("$ cloze")]
    assert [command[0] for command in commands] == [
        *("vocab", "corpus", "pretrain", "finetune", "fill", "fill", "next", "predict")
    ]
    for command, run in ((commands[2], "pretrained"), (commands[3], "novelist")):
        assert main([*command, "--print-config"]) == 0
        found = ("data_sha256", "labels")  # by the run, in the data
        printed, kept = (
            [line for line in text.splitlines() if line and not line.startswith(found)]
            for text in (capsys.readouterr().out, (output / run / "run.toml").read_text())
        )
        assert printed == kept
    for command in commands[4:]:
        assert main(command) == 0
        assert capsys.readouterr().out


def test_the_recipe_of_the_demo_is_found_by_name() -> None:
    config = configuration.load(PretrainConfig, find_recipe("demo"), ["data=d", "budget_seconds=1"])
    assert config.model.size == "tiny"


@pytest.mark.long
def test_the_demo_at_length_tells_novelists_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 0
    printed = capsys.readouterr()
    assert "guessed right" in printed.out
    result_line = next(line for line in printed.out.splitlines() if line.startswith("Novelists of unseen"))
    # Always naming one of the six is right in 17%.
    assert float(result_line.split(": ")[1].split("%")[0]) > 25
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 2
