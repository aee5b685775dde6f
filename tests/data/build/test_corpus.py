"""Build data sets: the same bytes for any number of workers, and nothing half-written."""

import random
import shutil
from pathlib import Path

import pytest

import cloze
from cloze.data.build import corpus as build
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import BuildRun, ReadingConfig
from cloze.data.build.parts import BuildConfig, BuildSummary, cached_tokenizer
from cloze.data.build.vocabulary import VocabularyConfig, count_input_words, train_vocabulary
from cloze.data.dataset import Dataset
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.tokenization.loading import load_tokenizer, load_wordpiece
from corpora import rows_of, save_vocabulary
from helpers import flip_bit, read_tree

WORDS = ["the", "cat", "sat", "on", "a", "mat", ".", "and", "##s", "dog"]
PARAGRAPH = "The cats sat on a mat. " * 5
"""Long enough to be a duplicate."""


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    return save_vocabulary(tmp_path / "vocabulary", WORDS)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Forty documents, a sentence a line, some words unknown."""
    rng = random.Random(0)
    lines = []
    for _ in range(40):
        sizes = rng.choices(range(1, 13), k=rng.randint(2, 9))
        lines += [" ".join(rng.choices(["The", "cats", "dog", "zebra", "mat."], k=size)) for size in sizes]
        lines.append("")
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path / "text.txt"


def test_text_is_tokenized_into_documents_and_sentences(tmp_path, vocabulary):
    (tmp_path / "text").write_text("The cats sat.\nA dog?\n\n\u200d\n\nOn [MASK].\n")
    config = BuildConfig(reading=ReadingConfig(text_format="sentences"))
    summary = build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", config)
    assert summary == BuildSummary(
        documents=2, sentences=3, tokens=13, unknown_tokens=4, single_sentence_documents=1, empty_documents=1
    )
    dataset = Dataset.open(tmp_path / "data")
    tokens = load_tokenizer(tmp_path / "data").tokens
    assert [[[tokens[i] for i in s] for s in row] for row in rows_of(dataset.documents)] == [
        [["the", "cat", "##s", "sat", "."], ["a", "dog", "[UNK]"]],
        [["on", "[UNK]", "[UNK]", "[UNK]", "."]],
    ]
    assert dataset.info.unknown_tokens == 4
    assert dataset.vocab_size == 15


def small_parts(part_characters: int) -> BuildConfig:
    return BuildConfig(reading=ReadingConfig(part_characters=part_characters))


@pytest.mark.parametrize(
    ("documents", "held_out"),
    [
        (["the cat\nsat", "the\ncat", "the dog\nsat"], 1),
        ([f"the cat {n}" for n in range(1000)], 3),
        (["the cat\nsat"], 0),
        (["the cat\nsat"] * 9, 0),
    ],
)
def test_documents_of_any_length_are_held_out_without_pairs(tmp_path, vocabulary, documents, held_out):
    (tmp_path / "text").write_text("\n\n".join(documents))
    build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert not dataset.supports_pairs
    assert len(dataset.split("validation")) == held_out
    assert len(dataset.split("train")) == len(documents) - held_out


def test_notes_report_text_that_was_left_out(tmp_path, vocabulary, capsys):
    (tmp_path / "text").write_text("the zebra\n\n\u200d\n\nthe cat\nsat")
    build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", run=BuildRun(progress=Progress()))
    notes = capsys.readouterr().err
    assert "1 document of one sentence" in notes
    assert "left out 1 document without any token" in notes
    assert "20.0% of the tokens are [UNK]" in notes


def test_short_documents_are_named_where_no_other_documents_are_left(tmp_path, vocabulary):
    (tmp_path / "text").write_text("the cat\nsat\n")
    reading = ReadingConfig(text_format="lines")
    tokenizers = [load_wordpiece(vocabulary)]
    for read in (
        lambda: build_dataset(
            [tmp_path / "text"], vocabulary, tmp_path / "data", BuildConfig(reading=reading)
        ),
        lambda: train_vocabulary(
            [tmp_path / "text"], tmp_path / "learned", VocabularyConfig(reading=reading, size=300)
        ),
        lambda: count_input_words([tmp_path / "text"], tokenizers, reading=reading),
    ):
        with pytest.raises(InputError, match="no document has 5 words, of 2 in it") as error:
            read()
        assert error.value.remedy == "`without=short_documents` keeps short documents"


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_text_leaves_nothing_behind(tmp_path, vocabulary, workers):
    (tmp_path / "text").write_bytes(b"the cat\n" * 10 + b"\xff")
    before = set(tmp_path.iterdir())
    with pytest.raises(InputError, match="text:11: not UTF-8"):
        build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", run=BuildRun(workers=workers))
    assert set(tmp_path.iterdir()) == before


@pytest.mark.protected
def test_a_damaged_tokenizer_of_a_killed_build_is_refused(tmp_path, vocabulary, text, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(build, "finalize", _fail)
        with pytest.raises(RuntimeError):
            build_dataset([text], vocabulary, tmp_path / "data")
    cached_tokenizer.cache_clear()  # a process keeps one tokenizer
    flip_bit(next((tmp_path / "data.parts").glob("vocabulary-*/tokenizer.json")))
    with pytest.raises(InputError, match=r"data\.parts/vocabulary-.*/tokenizer\.json: damaged"):
        build_dataset([text], vocabulary, tmp_path / "data", small_parts(1000))


def test_a_build_uses_the_tokenizer_of_a_faster_one(tmp_path, vocabulary, text, monkeypatch):
    rename = Path.rename

    def rename_later(path: Path, target: Path) -> Path:
        if target.name.startswith("vocabulary-"):
            shutil.copytree(path, target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_later)
    build_dataset([text], vocabulary, tmp_path / "data")
    monkeypatch.undo()
    build_dataset([text], vocabulary, tmp_path / "expected")
    assert read_tree(tmp_path / "data") == read_tree(tmp_path / "expected")


def _fail(*args: object, **kwargs: object) -> None:
    raise RuntimeError


def test_inputs_in_the_output_are_refused(tmp_path, vocabulary, text):
    data = tmp_path / "data"
    build_dataset([text], vocabulary, data)
    text.rename(data / "text.txt")
    before = read_tree(data)
    inputs, run = [data / "*.txt"], BuildRun(overwrite=True)
    for build_from_output in (
        lambda: build_dataset(inputs, vocabulary, data, run=run),
        lambda: build_dataset([vocabulary / "vocab.txt"], data, data, run=run),
        lambda: build_dataset(inputs, vocabulary, data, append=True),
        lambda: train_vocabulary(inputs, data, VocabularyConfig(size=200), run),
        lambda: cloze.extend_vocabulary(vocabulary, output=data, inputs=inputs, number=1, overwrite=True),
    ):
        with pytest.raises(InputError, match=r"data.*: is an input, and would be replaced"):
            build_from_output()
    assert read_tree(data) == before
