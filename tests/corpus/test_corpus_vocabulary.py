"""Text to vocabularies: what is learned is tested with the learner; here, how the text reaches it."""

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cloze import artifacts
from cloze.corpus import documents, vocabulary
from cloze.corpus.vocabulary import train_vocabulary
from cloze.errors import InputError
from cloze.text.tokenizer import Tokenizer
from cloze.text.words import count_words


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Words of three syllables, some of them far more frequent than others."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfgklmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=3)) for _ in range(300)]
    lines = [" ".join(rng.choices(words, weights=range(300, 0, -1), k=20)).capitalize() for _ in range(400)]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    return tmp_path / "text.txt"


def test_the_bytes_do_not_depend_on_the_workers(tmp_path, text, monkeypatch):
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 10_000)
    for workers in (1, 2):
        train_vocabulary([text], tmp_path / f"{workers}", size=300, workers=workers)
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / w).iterdir()} for w in "12")
    assert one == two
    assert set(one) == {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "manifest.json"}


def test_a_vocabulary_directory_is_whole_and_loads(tmp_path, text):
    learned = train_vocabulary([text], tmp_path / "v", size=300)
    artifacts.verify(tmp_path / "v", kind="vocabulary")
    loaded = Tokenizer.load(tmp_path / "v")
    assert loaded.pieces == learned.pieces
    assert loaded.vocab_size == 300
    assert loaded.lowercase


def test_a_text_that_would_be_replaced_is_not_read(tmp_path, text):
    train_vocabulary([text], tmp_path / "v", size=300)
    text.rename(tmp_path / "v" / "text.txt")
    with pytest.raises(InputError, match=r"text.txt: is to be read, and replaced"):
        train_vocabulary([tmp_path / "v/text.txt"], tmp_path / "v", size=200, overwrite=True)
    with pytest.raises(InputError, match=r"and the output .* is in it"):
        train_vocabulary([tmp_path], tmp_path / "w", size=200)


def test_cased(tmp_path, text):
    tokenizer = train_vocabulary([text], tmp_path / "v", size=300, lowercase=False)
    assert not Tokenizer.load(tmp_path / "v").lowercase
    assert any(piece[0].isupper() for piece in tokenizer.pieces)


def test_counting_goes_on_where_it_was_and_serves_other_sizes(tmp_path, text, monkeypatch):
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 10_000)
    expected = train_vocabulary([text], tmp_path / "expected", size=200)
    counted = []

    def count(lines: Iterable[str], **settings: Any) -> "Counter[str]":
        if len(counted) == 3:
            counted.append("the moment")
            raise KeyboardInterrupt
        counted.append("a part")
        return count_words(lines, **settings)

    monkeypatch.setattr(vocabulary, "count_words", count)
    with pytest.raises(KeyboardInterrupt):
        train_vocabulary([text], tmp_path / "v", size=200)
    with pytest.raises(InputError, match="Use a smaller one"):
        train_vocabulary([text], tmp_path / "v", size=4000)
    assert counted.count("a part") > 4
    monkeypatch.setattr(vocabulary, "count_words", None)
    assert train_vocabulary([text], tmp_path / "v", size=200).pieces == expected.pieces
    assert not (tmp_path / "v.parts").exists()


def test_few_rows_at_once_are_added_up_to_the_same(tmp_path, text, monkeypatch):
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 1_000)
    expected = train_vocabulary([text], tmp_path / "all", size=200)
    monkeypatch.setattr(vocabulary, "_ROWS_AT_ONCE", 10)
    assert train_vocabulary([text], tmp_path / "few", size=200).pieces == expected.pieces


def test_nothing_is_written_when_nothing_is_learned(tmp_path, text):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="empty: no text in it"):
        train_vocabulary([tmp_path / "empty"], tmp_path / "v", size=300)
    with pytest.raises(InputError, match="Use a smaller one"):
        train_vocabulary([text], tmp_path / "v", size=4000)
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "mine").write_text("precious")
    with pytest.raises(InputError, match="exists already"):
        train_vocabulary([text], tmp_path / "v", size=300)
    assert (tmp_path / "v" / "mine").read_text() == "precious"


def test_a_vocabulary_that_is_not_as_it_was_written_is_refused(tmp_path, text):
    train_vocabulary([text], tmp_path / "v", size=300)
    file = tmp_path / "v/tokenizer.json"
    file.write_text(file.read_text() + " ")
    with pytest.raises(InputError, match=r"tokenizer\.json: [\d,]+ bytes, the manifest says"):
        Tokenizer.load(tmp_path / "v")
