"""Text to data sets: the same bytes for any number of workers, and nothing half-written."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from cloze.corpus import build, documents, sources
from cloze.corpus.build import BuildConfig, build_dataset, build_task, merge_tasks
from cloze.corpus.seal import Summary
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.stage import Task
from cloze.corpus.store import Dataset, write_shard
from cloze.errors import InputError, RunError
from cloze.text.tokenizer import Tokenizer
from helpers import files_of

WORDS = ["the", "cat", "sat", "on", "a", "mat", ".", "and", "##s", "dog"]


PARAGRAPH = "The cats sat on a mat. " * 5
"""Long enough to be looked for again."""


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    directory = tmp_path / "vocabulary"
    directory.mkdir()
    Tokenizer.from_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]).save(directory)
    return directory


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


def test_text_comes_out_as_pieces(tmp_path, vocabulary):
    (tmp_path / "text").write_text(
        "The cats sat.\nA dog?\n\n\x00\n".replace("\x00", "\u200d") + "\nOn [MASK].\n"
    )
    config = BuildConfig(reading=ReadingConfig(text_format="sentences"))
    summary = build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", config)
    assert summary == Summary(
        documents=2,
        sentences=3,
        pieces=13,
        unknown_pieces=4,
        single_sentence_documents=1,
        empty_documents=1,
    )
    dataset = Dataset.open(tmp_path / "data")
    pieces = Tokenizer.load(tmp_path / "data").pieces
    documents = [[[pieces[i] for i in s] for s in dataset.documents.document(number)] for number in range(2)]
    assert documents == [
        [["the", "cat", "##s", "sat", "."], ["a", "dog", "[UNK]"]],
        [["on", "[UNK]", "[UNK]", "[UNK]", "."]],
    ]
    assert dataset.facts.unknown_pieces == 4
    assert dataset.vocab_size == 15


def test_paragraphs_are_split_into_sentences(tmp_path, vocabulary):
    (tmp_path / "text").write_text("The cat sat. The dog sat.\nA mat.\n")
    summary = build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data")
    assert (summary.documents, summary.sentences) == (1, 3)


def build_by_workers(inputs: list[Path], vocabulary: Path, output: Path, workers: int) -> None:
    build_dataset(inputs, vocabulary, output, workers=workers)


def build_by_tasks(inputs: list[Path], vocabulary: Path, output: Path, tasks: int) -> None:
    for number in range(tasks, 0, -1):
        build_task(inputs, vocabulary, output, task=Task(number, tasks))
    merge_tasks(output)


@pytest.mark.parametrize(
    ("build_it", "count"),
    [
        (build_by_workers, 2),  # each reads its own stretches
        (build_by_workers, 4),  # this process reads for them
        (build_by_tasks, 1),
        (build_by_tasks, 3),
        (build_by_tasks, 11),  # more than there are stretches
    ],
)
def test_the_bytes_do_not_depend_on_who_does_the_work(
    tmp_path, vocabulary, text, monkeypatch, build_it, count
):
    monkeypatch.setattr(sources, "_STRETCH_BYTES", 1000)
    inputs = [text, *(tmp_path / f"more-{n}" for n in range(2))]
    for file in inputs[1:]:
        file.write_text(f"{PARAGRAPH} the.\n\n{PARAGRAPH}\n" + text.read_text())
    build_dataset(inputs, vocabulary, tmp_path / "one")
    build_it(inputs, vocabulary, tmp_path / "other", count)
    expected = files_of(tmp_path / "one")
    assert files_of(tmp_path / "other") == expected
    assert len([name for name in expected if name.endswith(".arrow")]) > 5
    assert sorted(os.listdir(tmp_path)) == sorted(["vocabulary", "one", "other", *(f.name for f in inputs)])


def test_the_bytes_do_not_depend_on_the_workers_where_a_stretch_has_many_parts(
    tmp_path, vocabulary, text, monkeypatch
):
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 2000)
    for workers in (1, 2):
        build_dataset([text, text], vocabulary, tmp_path / f"{workers}", workers=workers)
    one, two = files_of(tmp_path / "1"), files_of(tmp_path / "2")
    assert one == two
    assert len([name for name in one if name.endswith(".arrow")]) > 3


def test_where_parts_end_changes_no_document(tmp_path, vocabulary, text, monkeypatch):
    build_dataset([text], vocabulary, tmp_path / "one")
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 500)
    build_dataset([text], vocabulary, tmp_path / "many")
    one, many = (Dataset.open(tmp_path / name).documents for name in ("one", "many"))
    assert len(one) == len(many) == 40
    for number in range(40):
        rows = [[s.tolist() for s in documents.document(number)] for documents in (one, many)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize(("fraction", "held_out"), [(0.005, 2), (0.2, 12), (0.99, 38)])
def test_held_out_documents(tmp_path, vocabulary, text, fraction, held_out):
    build_dataset([text], vocabulary, tmp_path / "data", BuildConfig(validation_fraction=fraction))
    dataset = Dataset.open(tmp_path / "data")
    assert len(dataset.split("validation")) == held_out
    assert len(dataset.split("train")) == 40 - held_out


@pytest.mark.parametrize(
    ("documents", "held_out"),
    [
        (["the cat\nsat", "the\ncat", "the dog\nsat"], 1),
        ([f"the cat {n}" for n in range(1000)], 3),
        (["the cat\nsat"], 0),
        (["the cat\nsat"] * 9, 0),
    ],
)
def test_where_no_pairs_are_made_documents_of_any_length_are_held_out(
    tmp_path, vocabulary, documents, held_out
):
    (tmp_path / "text").write_text("\n\n".join(documents))
    build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert not dataset.makes_pairs
    assert len(dataset.split("validation")) == held_out
    assert len(dataset.split("train")) == len(documents) - held_out


def test_notes_tell_what_was_left_out(tmp_path, vocabulary, capsys):
    from cloze.progress import Progress

    (tmp_path / "text").write_text("the zebra\n\n\u200d\n\nthe cat\nsat")
    build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", progress=Progress())
    told = capsys.readouterr().err
    assert "1 documents of one sentence" in told
    assert "1 documents of which nothing was left" in told
    assert "20.0% of the pieces are [UNK]" in told


@pytest.mark.parametrize("content", ["", "\n\n \n", "\u200d\n"])
def test_an_empty_corpus(tmp_path, vocabulary, content):
    (tmp_path / "text").write_text(content)
    with pytest.raises(InputError, match="text: no text in it"):
        build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_bad_text_leaves_nothing_behind(tmp_path, vocabulary, workers):
    (tmp_path / "text").write_bytes(b"the cat\n" * 10 + b"\xff")
    before = set(tmp_path.iterdir())
    with pytest.raises(InputError, match="text:11: not UTF-8"):
        build_dataset([tmp_path / "text"], vocabulary, tmp_path / "data", workers=workers)
    assert set(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_what_is_finished(tmp_path, vocabulary, text, monkeypatch):
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 2000)
    build_dataset([text], vocabulary, tmp_path / "expected")
    room = iter([True, True])
    written = []

    def write(path: Path, *args: Any, **kwargs: Any) -> None:
        if not next(room, False):
            path.write_bytes(b"half a shard")
            raise OSError(errno.ENOSPC, "No space left on device")
        write_shard(path, *args, **kwargs)
        written.append(path)

    monkeypatch.setattr(build, "write_shard", write)
    before = set(tmp_path.iterdir())
    with pytest.raises(RunError, match=r"data\.parts/.*: cannot write: No space left on device\. Free some"):
        build_dataset([text], vocabulary, tmp_path / "data")
    assert set(tmp_path.iterdir()) == before | {tmp_path / "data.parts"}
    room = iter([True] * 100)
    build_dataset([text], vocabulary, tmp_path / "data")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "expected")
    assert len(written) == len(list((tmp_path / "data").glob("*.arrow")))
    assert set(tmp_path.iterdir()) == before | {tmp_path / "data"}


def test_a_disk_that_is_full_at_once_leaves_nothing(tmp_path, vocabulary, text, monkeypatch):
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(build, "write_shard", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(
        RunError, match=r"data\.parts.*: cannot write: No space left on device\. Free some space"
    ):
        build_dataset([text], vocabulary, tmp_path / "data")
    assert set(tmp_path.iterdir()) == before


def test_another_vocabulary_in_the_same_place_is_another(tmp_path, vocabulary, text):
    build_dataset([text], vocabulary, tmp_path / "data")
    other = tmp_path / "other"
    other.mkdir()
    Tokenizer.from_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS[::-1]]).save(other)
    build_dataset([text], other, tmp_path / "data", overwrite=True)
    build_dataset([text], other, tmp_path / "expected")
    assert files_of(tmp_path / "data") == files_of(tmp_path / "expected")


def test_parts_of_another_tokenizer_are_not_gone_on_with(tmp_path, vocabulary, text):
    build_task([text], vocabulary, tmp_path / "data", task=Task(1, 2))
    stage = tmp_path / "data.parts"
    Tokenizer.from_pieces(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS[::-1]]).save(stage)
    build._tokenizer.cache_clear()  # as in another process
    with pytest.raises(
        InputError, match=r"data\.parts: the tokenizer in it is not the one that it was begun with"
    ):
        build_dataset([text], vocabulary, tmp_path / "data")
    Tokenizer.load(vocabulary).save(stage)
    build_dataset([text], vocabulary, tmp_path / "data")


def test_what_is_read_is_not_replaced(tmp_path, vocabulary, text):
    data = tmp_path / "data"
    build_dataset([text], vocabulary, data)
    text.rename(data / "text.txt")
    before = files_of(data)
    for inputs, vocab in (([data / "*.txt"], vocabulary), ([vocabulary / "vocab.txt"], data)):
        for append in (False, True) if vocab is vocabulary else (False,):
            with pytest.raises(
                InputError, match=r"data.*: is to be read, and replaced\. Choose another --output"
            ):
                build_dataset(inputs, vocab, data, append=append, overwrite=not append)
        with pytest.raises(InputError, match="is to be read, and replaced"):
            build_task(inputs, vocab, data, task=Task(1, 2))
    with pytest.raises(
        InputError, match=r"is to be read, and the output .* is in it\. Choose an output outside of it"
    ):
        build_dataset([tmp_path], vocabulary, data, overwrite=True)
    assert files_of(data) == before


def test_what_is_there_stays(tmp_path, vocabulary, text):
    build_dataset([text], vocabulary, tmp_path / "data")
    before = files_of(tmp_path / "data")
    with pytest.raises(InputError, match="exists already"):
        build_dataset([text], vocabulary, tmp_path / "data")
    assert files_of(tmp_path / "data") == before
    config = BuildConfig(validation_fraction=0.5)
    build_dataset([text], vocabulary, tmp_path / "data", config, overwrite=True)
    assert files_of(tmp_path / "data") != before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language": "tlh"}, "no sentence rules for 'tlh'"),
        ({"validation_fraction": 0.0}, "validation-fraction: 0.0 is not between 0 and 1"),
        ({"validation_fraction": 1.5}, "not between 0 and 1"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_read(tmp_path, vocabulary, settings, message):
    with pytest.raises(InputError, match=message):
        build_dataset([tmp_path / "nowhere"], vocabulary, tmp_path / "data", BuildConfig(**settings))


def test_a_directory_without_a_vocabulary(tmp_path, text):
    with pytest.raises(InputError, match="nowhere"):
        build_dataset([text], tmp_path / "nowhere", tmp_path / "data")
