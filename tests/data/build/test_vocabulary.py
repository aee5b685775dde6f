"""Vocabularies learned from text: resuming, other sizes and errors."""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers

from cloze.data.build import vocabulary
from cloze.data.build.input_shards import BuildRun, ReadingConfig
from cloze.data.build.vocabulary import AccentCounts, VocabularyConfig, strip_accents, train_vocabulary
from cloze.errors import InputError
from cloze.progress import Progress
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import count_words

SMALL_PARTS = ReadingConfig(part_characters=10_000)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Words of three syllables, some of them far more frequent than others."""
    rng = random.Random(0)
    syllables = [a + b for a in "bcdfgklmnprst" for b in "aeiou"]
    words = ["".join(rng.choices(syllables, k=3)) for _ in range(300)]
    lines = [" ".join(rng.choices(words, weights=range(300, 0, -1), k=20)).capitalize() for _ in range(400)]
    (tmp_path / "text.txt").write_text("\n\n".join(lines))
    return tmp_path / "text.txt"


def learn(text: Path, output: Path, run: BuildRun = BuildRun(), **settings: Any) -> Tokenizer:
    return train_vocabulary([text], output, VocabularyConfig(**settings), run)


def test_counting_resumes_and_serves_other_sizes(tmp_path, text, monkeypatch):
    expected = learn(text, tmp_path / "expected", reading=SMALL_PARTS, size=200)
    counted = []

    def count(lines: Iterable[str], **settings: Any) -> "Counter[str]":
        if len(counted) == 3:
            counted.append("the moment")
            raise KeyboardInterrupt
        counted.append("a part")
        return count_words(lines, **settings)

    monkeypatch.setattr(vocabulary, "count_words", count)
    with pytest.raises(KeyboardInterrupt):
        learn(text, tmp_path / "v", reading=SMALL_PARTS, size=200)
    with pytest.raises(InputError, match="tokens or fewer"):
        learn(text, tmp_path / "v", reading=SMALL_PARTS, size=4000)
    assert counted.count("a part") > 4
    monkeypatch.setattr(vocabulary, "count_words", None)
    assert learn(text, tmp_path / "v", reading=SMALL_PARTS, size=200).tokens == expected.tokens
    assert not (tmp_path / "v.parts").exists()


def test_words_are_counted_as_each_tokenizer_splits_them(tmp_path):
    text = tmp_path / "text"
    text.write_text("The cat and the dog.\n")
    uncased = WordPieceTokenizer.from_tokens(SPECIAL_TOKENS)
    cased = WordPieceTokenizer.from_tokens(SPECIAL_TOKENS, lowercase=False)
    counts = vocabulary.count_input_words([text], [cased, uncased, cased])
    assert [(counter["The"], counter["the"]) for counter in counts] == [(1, 1), (0, 2), (1, 1)]


def test_nothing_is_written_on_an_error(tmp_path, text):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="empty: no text in it"):
        learn(tmp_path / "empty", tmp_path / "v", size=300)
    with pytest.raises(InputError, match="tokens or fewer"):
        learn(text, tmp_path / "v", size=4000)
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "mine").write_text("precious")
    with pytest.raises(InputError, match="already exists"):
        learn(text, tmp_path / "v", size=300)
    assert (tmp_path / "v" / "mine").read_text() == "precious"


MARKS = {
    "Devanagari": ("मेरी किताब कहाँ है और वह क्यों नहीं मिली। हम कल बाज़ार गए थे।", "कहाँ becomes कहा"),
    "Ukrainian": (
        "Їжак їсть яблука, а мій кіт ще й досі спить. Подобається їхній сад.",
        "їхній becomes іхніи",
    ),
    "Thai": ("เมื่อวานฉันไปตลาด ผู้ใหญ่บ้านมาแล้ว น้ำแข็งอยู่ที่ไหน", "น้ำแข็งอยู่ที่ไหน becomes นำแขงอยทไหน"),
    "Korean": ("나는 어제 도서관에 갔다. 그는 책을 읽고 있었다.", "갔다 becomes ᄀ ᅡ ᆻ ᄃ ᅡ"),
    "Japanese": ("ガラスがある。 すぐ ピアノ", "ピアノ becomes ヒアノ"),
    "German": (
        "Müsste er es sagen, möchte er schweigen. Das Mädchen hörte schöne Töne.",
        "Töne becomes tone",
    ),
    "decomposed": ("Le cafe\u0301 est a\u0300 la gare.", "café becomes cafe"),
}


def learn_most(text: Path, output: Path, **settings: Any) -> Tokenizer:
    """Learn a vocabulary of a size that the text has enough tokens for."""
    size = 60
    while True:
        try:
            return learn(text, output, BuildRun(progress=Progress()), size=size, **settings)
        except InputError as error:
            size = int(re.search(r"Use (?:at least )?(\d+)", str(error))[1])


@pytest.mark.parametrize("script", MARKS)
def test_letters_that_lower_casing_changes_are_named_and_the_remedies_keep_them(tmp_path, capsys, script):
    line, example = MARKS[script]
    (tmp_path / "text").write_text(f"{line}\n\n" * 9)
    learn_most(tmp_path / "text", tmp_path / "default")
    notes = capsys.readouterr().err
    assert re.search(r"lower-casing removes accents and marks, which changes [\d.]+% of the letters: ", notes)
    assert example in notes
    assert "--keep-accents lower-cases without it, --cased keeps all" in notes
    composed = unicodedata.normalize("NFC", line)
    for name, settings in (("keep", {"keep_accents": True}), ("cased", {"lowercase": False})):
        learn_most(tmp_path / "text", tmp_path / name, **settings)
        assert "removes accents" not in capsys.readouterr().err
        tokens = load_tokenizer(tmp_path / name).encode(composed).tokens[1:-1]
        expected = composed if name == "cased" else composed.lower()
        assert "".join(token.removeprefix("##") for token in tokens) == "".join(expected.split())


def test_few_accents_give_no_warning():
    counts = AccentCounts.of_words([("naïve", 1), ("café", 1), ("reader", 99)])
    assert (counts.letters, counts.changed) == (5 + 4 + 6 * 99, 2)
    assert counts.describe() == []


def test_accent_counts_do_not_depend_on_parts(tmp_path, capsys):
    (tmp_path / "text").write_text("\n\n".join([MARKS["German"][0], MARKS["Ukrainian"][0]] * 20))
    notes = []
    for part_characters in (10**6, 100):
        reading = ReadingConfig(part_characters=part_characters)
        learn_most(tmp_path / "text", tmp_path / f"{part_characters}", reading=reading)
        notes.append(re.search(r"changes [\d.]+%", capsys.readouterr().err)[0])
    assert notes[0] == notes[1]


def test_the_table_of_scripts_shows_what_the_tokenizer_does():
    page = (Path(__file__).parents[3] / "docs" / "guides" / "vocabulary.md").read_text("utf-8")
    rows = re.findall(r"^\| [^|]+ \| `([^`]+)` becomes `([^`]+)` \|", page, re.MULTILINE)
    assert len(rows) >= 9
    normalizer = normalizers.BertNormalizer(lowercase=True)
    for before, after in rows:
        expected = after.replace(" ", "")
        assert "".join(normalizer.normalize_str(before).split()) == strip_accents(before) == expected
