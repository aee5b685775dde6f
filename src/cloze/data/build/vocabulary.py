"""Learn a WordPiece vocabulary from text, or add words to one.

The counts of the words of a part are a file (`part_files`): a killed count resumes, and vocabularies of several sizes
can be learned from one count. Added words do not change existing IDs, so a model of the old vocabulary needs only new
embeddings for them.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from heapq import nsmallest
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from cloze import artifacts
from cloze.arguments import check_integer, check_texts
from cloze.data.build.cleaning import (
    MAX_EXAMPLES,
    CleaningConfig,
    CleaningCounts,
    Counts,
    clean_all,
    no_text_error,
)
from cloze.data.build.directory import (
    check_output_is_not_read,
    keep_finished_parts,
    remove_leftover_parts,
    remove_parts,
    write_output,
)
from cloze.data.build.input_shards import (
    BuildRun,
    InputShard,
    ReadingConfig,
    map_input_shards,
    plan_input_shards,
    read_documents,
)
from cloze.data.build.part_files import BuildPlan, make_parts, read_record
from cloze.data.reading.arrow_files import write_record_batch
from cloze.data.reading.documents import Document, split_into_parts
from cloze.errors import InputError
from cloze.results import Result
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.special_tokens import UNK
from cloze.tokenization.statistics import describe_text, tokenize_words
from cloze.tokenization.tokenizer_class import MAX_INPUT_CHARS_PER_WORD
from cloze.tokenization.tokenizer_files import MAX_WORD_LIMIT
from cloze.tokenization.vocabulary import MAX_WORD_CHARS, add_tokens, learn_vocabulary, reserved_tokens
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import MIN_COUNT, count_words

KIND = "vocabulary"
_PACKAGES = ("cloze-bert", "tokenizers")  # the counts depend on them
_MIN_CHANGED_SHARE = 0.01  # of the letters; fewer that lower-casing changes give no warning


def word_settings(tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    """Return the arguments with which `count_words` splits text as a tokenizer does."""
    return {
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.tokenize_chinese_chars,
        "max_word_chars": tokenizer.max_input_chars_per_word,
    }


def count_input_words(
    inputs: Sequence[str | Path],
    tokenizers: Sequence[WordPieceTokenizer],
    reading: ReadingConfig = ReadingConfig(),
    run: BuildRun = BuildRun(),
) -> list["Counter[str]"]:
    """Count the words of a text as each tokenizer splits it."""
    settings = list(map(word_settings, tokenizers))
    different = [entry for number, entry in enumerate(settings) if entry not in settings[:number]]
    totals: list[Counter[str]] = [Counter() for _ in different]
    count, cleaning = partial(_count_shard, settings=different, reading=reading), CleaningCounts()
    shards = plan_input_shards(inputs, reading)
    for counters, cleaned in map_input_shards(count, shards, run, label="counting words"):
        cleaning += cleaned
        for total, counter in zip(totals, counters, strict=True):
            total.update(counter)
    if not any(totals):
        raise no_text_error(inputs, cleaning)
    return [totals[different.index(entry)] for entry in settings]


def _count_shard(
    input_shard: InputShard, *, settings: Sequence[Mapping[str, Any]], reading: ReadingConfig
) -> tuple[list["Counter[str]"], CleaningCounts]:
    totals, cleaning = [Counter[str]() for _ in settings], CleaningCounts()
    for documents in split_into_parts(read_documents(input_shard), reading.part_characters):
        cleaned, changes = clean_all(documents, reading.cleaning)
        cleaning += changes
        for total, of_tokenizer in zip(totals, settings, strict=True):
            total.update(
                count_words((line for document in cleaned for line in document.lines), **of_tokenizer)
            )
    return totals, cleaning


@dataclass(frozen=True, slots=True)
class AccentCounts(Counts):
    """Counts of the letters of a text that lower-casing without accents changes.

    BERT decomposes characters (NFD) and deletes nonspacing marks. That is harmless in English; it also deletes vowel
    signs (Devanagari, Thai), makes one letter of two (Ukrainian, Japanese), and takes the syllables of Korean apart.
    """

    letters: int = 0
    changed: int = 0
    examples: tuple[str, ...] = ()
    """The words with the most changed letters, of the first text that has any, with spaces between added letters."""

    @classmethod
    def of_words(cls, words: Iterable[tuple[str, int]]) -> "AccentCounts":
        """Count the letters of words, each given with its number of occurrences."""
        letters = 0
        changes: list[tuple[int, str]] = []
        for word, count in words:
            if word.isascii():
                letters += count * (len(word) if word.isalpha() else sum(map(str.isalpha, word)))
                continue
            kinds = list(map(_change, word))
            letters += count * (len(kinds) - kinds.count(None))
            if changed := kinds.count(True):
                changes.append((-count * changed, word))
        examples = []
        for _, word in nsmallest(MAX_EXAMPLES, changes):
            after = strip_accents(word)
            examples.append(f"{word} becomes {' '.join(after) if len(after) > len(word) else after}")
        return cls(letters, -sum(change for change, _ in changes), tuple(examples))

    def describe(self) -> list[str]:
        """Return a warning if a noticeable share of the letters changes."""
        if self.changed < max(1, _MIN_CHANGED_SHARE * self.letters):
            return []
        return [
            f"warning: lower-casing removes accents and marks, which changes {self.changed / self.letters:.1%} of the "
            f"letters: {', '.join(self.examples)}. --keep-accents lower-cases without it, --cased keeps all"
        ]


def strip_accents(word: str) -> str:
    """Lower-case a word and remove accents, as an uncased tokenizer does."""
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


@lru_cache(maxsize=1 << 16)
def _change(character: str) -> bool | None:
    """Return whether a letter or mark changes other than in case; None for other characters."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    return strip_accents(character) != character.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyConfig:
    """How text becomes a vocabulary."""

    reading: ReadingConfig = ReadingConfig()
    size: int = 30_522
    lowercase: bool = True
    keep_accents: bool = False
    max_word_chars: int = MAX_INPUT_CHARS_PER_WORD


def train_vocabulary(
    inputs: Sequence[str | Path], output: Path, config: VocabularyConfig, run: BuildRun = BuildRun()
) -> WordPieceTokenizer:
    """Learn a WordPiece vocabulary from files and write it to a directory, as `cloze.train_vocabulary` does."""
    reading, size, max_word_chars = config.reading, int(config.size), int(config.max_word_chars)
    check_integer(max_word_chars, "max_word_chars", maximum=MAX_WORD_LIMIT)
    if size <= (reserved := len(reserved_tokens(size))):
        what = f"{size} tokens are too few: {reserved} are reserved"
        raise InputError(what, where="size", remedy="Use several thousand")
    check_output_is_not_read(output, inputs)
    strip_accents = False if config.keep_accents and config.lowercase else None
    settings = {"lowercase": config.lowercase, "strip_accents": strip_accents}
    plan = BuildPlan.of(
        plan_input_shards(inputs, reading, progress=run.progress),
        {
            "kind": KIND,
            "lowercase": config.lowercase,
            "keep_accents": config.keep_accents,
            "without": sorted(reading.cleaning.without),
            "clean": reading.cleaning.clean,
            "part_characters": reading.part_characters,
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        {"size": size, "max_word_chars": max_word_chars},
    )
    if remove_leftover_parts(output, plan):
        return load_wordpiece(output)
    artifacts.check_output_path(output, overwrite=run.overwrite)
    with keep_finished_parts(output, plan, run.progress) as directory:
        parts = make_parts(
            directory,
            plan,
            partial(_count_part, cleaning=reading.cleaning, settings=settings),
            label="counting words",
            counts=("words",),
            run=run,
        )
        counts, cleaned, accents = _add_up(parts)
        for line in [*cleaned.describe(), *accents.describe()]:
            run.progress.note(line)
        if not counts:
            remove_parts(output)
            raise no_text_error(inputs, cleaned)
        tokenizer = WordPieceTokenizer.from_tokens(
            learn_vocabulary(counts, size=size, progress=run.progress),
            **settings,
            max_input_chars_per_word=max_word_chars,
        )
        with write_output(output, plan, kind=KIND, overwrite=run.overwrite) as temporary:
            tokenizer.save(temporary)
    return tokenizer


def _count_part(
    documents: list[Document], path: Path, *, cleaning: CleaningConfig, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Count words, and the letters that lower-casing strips of accents, and write the counts as a part."""
    cleaned, done = clean_all(documents, cleaning)
    accents: list[AccentCounts] = []
    if settings["lowercase"] and settings["strip_accents"] is not False:
        settings = {**settings, "observe": lambda words: accents.append(AccentCounts.of_words(words))}
    counts = count_words((line for document in cleaned for line in document.lines), **settings)
    words = pa.array(counts.keys(), pa.large_string())
    write_record_batch(path, {"word": words, "count": pa.array(counts.values(), pa.int64())})
    return {
        "words": counts.total(),
        "cleaning": asdict(done),
        "accents": asdict(sum(accents, AccentCounts())),
    }


def _add_up(parts: Sequence[Path]) -> tuple["Counter[str]", CleaningCounts, AccentCounts]:
    """Add up the counts of all parts."""
    total, done, accents = Counter[str](), CleaningCounts(), AccentCounts()
    for part in parts:
        record = read_record(part)
        done += CleaningCounts.from_dict(record["cleaning"])
        accents += AccentCounts.from_dict(record["accents"])
        table = pa.ipc.open_file(pa.memory_map(str(part))).read_all()
        total.update(dict(zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)))
    return total, done, accents


@dataclass(frozen=True, slots=True)
class AddedWord:
    """A word that became a token."""

    word: str
    id: int
    count: int | None
    """Occurrences in the text, if one was given."""
    before: tuple[str, ...]
    """The tokens that it was split into."""


@dataclass(frozen=True, slots=True, repr=False)
class Extension(Result):
    """The result of adding words to a vocabulary."""

    tokens_before: int
    tokens: int
    added: tuple[AddedWord, ...]
    known: tuple[str, ...]
    """Given words that were tokens already."""
    tokens_per_word_before: float | None
    """Of the text, if one was given."""
    tokens_per_word: float | None

    @property
    def appended(self) -> int:
        """Number of words for which no [unused] token was left."""
        return self.tokens - self.tokens_before


def add_words(
    tokenizer: WordPieceTokenizer, words: Sequence[str], counts: Mapping[str, int]
) -> tuple[WordPieceTokenizer, Extension]:
    """Return a tokenizer with more words, and what changed; `counts` are of the words of a text."""
    old_tokens = set(tokenizer.tokens)
    new = [word for word in words if word not in old_tokens]
    if not new:
        raise InputError("all of the words are tokens already", where="words")
    keep = [token.content for token in tokenizer.added_tokens]
    extended = replace(tokenizer, tokens=tuple(add_tokens(tokenizer.tokens, new, keep=keep)))
    ids = {token: index for index, token in enumerate(extended.tokens)}
    return extended, Extension(
        tokens_before=tokenizer.vocab_size,
        tokens=extended.vocab_size,
        added=tuple(
            AddedWord(word, ids[word], counts.get(word, 0) if counts else None, before)
            for word, before in zip(new, tokenize_words(tokenizer, new), strict=True)
        ),
        known=tuple(word for word in words if word in old_tokens),
        tokens_per_word_before=describe_text(tokenizer, counts).tokens_per_word if counts else None,
        tokens_per_word=describe_text(extended, counts).tokens_per_word if counts else None,
    )


def read_words(words: Path | Sequence[str], tokenizer: WordPieceTokenizer) -> list[str]:
    """Normalize words, or a file of one per line, as the tokenizer does."""
    settings = word_settings(tokenizer)
    read: dict[str, None] = {}
    if isinstance(words, Path):
        shards = plan_input_shards([words], ReadingConfig(text_format="lines"))
        documents = (document for shard in shards for document in read_documents(shard))
        lines = ((document.lines[0], document.where) for document in documents)
    else:
        lines = ((word, f"words[{number}]") for number, word in enumerate(check_texts(words, "words")))
    for text, where in lines:
        counts = count_words([text], **settings)
        word = next(iter(counts), "")
        if counts.total() != 1 or len(word) > MAX_WORD_CHARS or word == UNK:
            what = f"{text!r:.60} is not one word of at most {MAX_WORD_CHARS} characters"
            remedy = "Give one word per line; the tokenizer always splits at spaces and punctuation"
            raise InputError(what, where=where, remedy=remedy)
        read[word] = None
    if not read:
        raise InputError("no word in it", where=words if isinstance(words, Path) else "words")
    return list(read)


def most_frequent_words(counts: Mapping[str, int], tokenizer: WordPieceTokenizer, number: int) -> list[str]:
    """Return the most frequent words that are not tokens."""
    if number < 1:
        raise InputError(f"{number} is less than 1", where="number")
    if not counts:
        raise InputError("needs a text", where="number", remedy="Name files, folders or globs")
    tokens = set(tokenizer.tokens)
    usable = [w for w, n in counts.items() if n >= MIN_COUNT and w not in tokens and len(w) <= MAX_WORD_CHARS]
    if len(usable) < number:
        what = f"the text has {len(usable):,} words that are not tokens and occur {MIN_COUNT} times or more"
        fewer = f"Ask for {len(usable)} or fewer, or give" if usable else "Give"
        raise InputError(what, where="number", remedy=f"{fewer} more text")
    return sorted(usable, key=lambda word: (-counts[word], word))[:number]
