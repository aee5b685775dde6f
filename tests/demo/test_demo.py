"""The bundled novels, and the whole demo at a small size."""

import shlex
from pathlib import Path

import pytest

from cloze import config as configuration
from cloze.cli import main
from cloze.cli.options import find_recipe
from cloze.data.tables import read_rows
from cloze.demo.novels import NOVELISTS, read_chapters, split_passages
from cloze.demo.pipeline import DemoSize, format_result, run_demo
from cloze.errors import InputError
from cloze.pretraining.config import PretrainConfig
from cloze.progress import Progress

SMALL = DemoSize(
    vocabulary_size=1000, pretrain_seconds=4, finetune_seconds=4, train_passages=20, test_passages=5
)


@pytest.mark.parametrize("novelist", NOVELISTS, ids=lambda novelist: novelist.name)
def test_a_novel_starts_with_its_story_and_does_not_name_its_author(novelist) -> None:
    for novel in (novelist.train_novel, novelist.test_novel):
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


def test_all_novels_are_different() -> None:
    titles = [novel.title for novelist in NOVELISTS for novel in (novelist.train_novel, novelist.test_novel)]
    assert len(set(titles)) == 12
    assert all(novel.author == n.name for n in NOVELISTS for novel in (n.train_novel, n.test_novel))


def test_passages_join_consecutive_sentences() -> None:
    assert split_passages(["a b", "c", "d e f", "g"], min_words=3) == ["a b c", "d e f"]


def test_the_demo_runs_all_stages_and_opens_no_connection(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], connections: list[object]
) -> None:
    output = tmp_path / "demo run"
    result = run_demo(output, size=SMALL, progress=Progress())
    progress = capsys.readouterr().err
    assert connections == []
    assert len(result.masks) == 2 * 5
    assert {answer.model for answer in result.masks} == {"this encoder", "cloze-mini"}
    assert all(len(answer.answers) == 5 for answer in result.masks)
    assert all(0 <= probability <= 1 for *_, probability in result.next_sentences)
    assert [answer.truth for answer in result.novelists] == [novelist.name for novelist in NOVELISTS]
    assert 0 <= result.scores["accuracy"] <= 1
    assert result.scores["majority_accuracy"] == pytest.approx(1 / 6)
    assert all(path.read_text("utf-8").startswith("<!DOCTYPE html>") for path in result.reports)
    for text in ("Authors of test novels:", "always the most frequent author: 16.7%", str(result.reports[0])):
        assert text in format_result(result)
    test_rows = list(read_rows(output / "passages" / "tested.tsv", ["passage", "novelist"]))
    assert len(test_rows) == 6 * SMALL.test_passages
    _check_printed_commands(output, progress, capsys)
    with pytest.raises(InputError, match="already exists"):
        run_demo(output, size=SMALL)


def _check_printed_commands(output: Path, progress: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [shlex.split(line)[2:] for line in progress.splitlines() if line.strip().startswith("$ cloze")]
    assert [command[0] for command in commands] == [
        *("vocab", "corpus", "pretrain", "finetune", "fill", "fill", "next", "predict")
    ]
    for command, run in ((commands[2], "pretrained"), (commands[3], "novelist")):
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


def test_the_recipe_of_the_demo_is_found() -> None:
    config = configuration.load(PretrainConfig, find_recipe("demo"), ["data=d", "budget_seconds=1"])
    assert config.model.size == "tiny"


@pytest.mark.exhaustive
def test_the_full_demo_classifies_authors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 0
    printed = capsys.readouterr()
    assert "Masked tokens of held-out chapters" in printed.out
    result_line = next(line for line in printed.out.splitlines() if line.startswith("Authors of test novels"))
    # always naming the same author is correct in 17%
    assert float(result_line.split(": ")[1].split("%")[0]) > 25
    assert main(["demo", "-o", str(tmp_path / "demo-run")]) == 2
