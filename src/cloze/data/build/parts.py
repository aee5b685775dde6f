"""Parts of a data set: some documents, cleaned, split into sentences and tokenized, with counts."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.data.build.cleaning import CleaningCounts, Counts, clean_all
from cloze.data.build.duplicates import LONG_PARAGRAPH_CHARACTERS, DuplicateCounts, text_digests
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.reading.documents import Document
from cloze.data.shards import Integers, Shard, to_offsets, write_shard
from cloze.errors import InputError
from cloze.results import Result
from cloze.tables import format_count
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.sentences import check_language, hash_splitter, split_sentences, split_with_function
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer

FINAL_STEPS = {"duplicate_documents", "duplicate_paragraphs"}
"""Cleaning steps that need all parts."""
_PACKAGES = ("cloze-bert", "sentencex", "tokenizers", "pyarrow")  # the bytes of a part depend on them
_UNKNOWN_SHARE = 0.01  # a larger share gives a warning


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildConfig:
    """How text becomes a data set."""

    reading: ReadingConfig = ReadingConfig()
    language: str | None = None
    """ISO code of the rules that split paragraphs into sentences. None: en, or in an append the data set's."""
    splitter: str | None = None
    """ "package.module:function" that splits paragraphs instead of the rules. None without a language: in an append
    the data set's."""
    segmenter: str | None = None
    """ "package.module:function" that splits sentences into words for whole-word masking, in scripts without spaces.
    The tokens stay the same."""
    validation_fraction: float | None = None
    """Share of the documents held out from training, at least two of them. None is 0.005, or in a small data set the
    share that has 40,000 tokens, at most 0.1."""

    def __post_init__(self) -> None:
        if self.language is not None:
            check_language(self.language)
        if self.validation_fraction is not None and not 0 < self.validation_fraction < 1:
            what = f"{self.validation_fraction} is not between 0 and 1"
            raise InputError(what, where="validation_fraction")


@dataclass(frozen=True, slots=True, repr=False)
class BuildSummary(Counts, Result):
    """Counts of what text became."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    single_sentence_documents: int = 0
    """They make no pair."""
    empty_documents: int = 0
    """Left out, because the tokenizer removes all of their text, or all their paragraphs are duplicates."""
    cleaning: CleaningCounts = CleaningCounts()
    duplicate_documents: DuplicateCounts = DuplicateCounts()
    duplicate_paragraphs: DuplicateCounts = DuplicateCounts()

    def describe(self) -> Iterator[str]:
        """Yield lines about text that was changed or left out, and a warning of many unknown tokens."""
        yield from self.cleaning.describe()
        yield from self.duplicate_documents.describe("document")
        yield from self.duplicate_paragraphs.describe("long paragraph")
        if count := self.single_sentence_documents:
            yield f"{format_count(count, 'document')} of one sentence, without a pair for next-sentence prediction"
        if self.empty_documents:
            yield f"left out {format_count(self.empty_documents, 'document')} without any token"
        if self.unknown_tokens > _UNKNOWN_SHARE * self.tokens:
            share = self.unknown_tokens / self.tokens
            yield f"warning: {share:.1%} of the tokens are [UNK]: is this the vocabulary of this language?"


def count_shard(shard: Shard, tokenizer: Tokenizer) -> BuildSummary:
    """Count the documents, sentences and tokens of a shard."""
    sentences_D = shard.sentences_per_document
    return BuildSummary(
        documents=len(sentences_D),
        sentences=int(sentences_D.sum()),
        tokens=len(shard.token_ids),
        unknown_tokens=int((shard.token_ids % np.int64(tokenizer.vocab_size) == tokenizer.unknown_id).sum()),
        single_sentence_documents=int((sentences_D == 1).sum()),
    )


def part_settings(config: BuildConfig, tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    """Return everything that the bytes of a part depend on, except its text."""
    return {
        "vocabulary": hash_tokenizer(tokenizer),
        "language": config.language,
        "splitter": config.splitter and [config.splitter, hash_splitter(config.splitter)],
        "segmenter": config.segmenter and [config.segmenter, hash_splitter(config.segmenter, "segmenter")],
        "without": sorted({*config.reading.cleaning.without} - FINAL_STEPS),
        "clean": config.reading.cleaning.clean,
        "part_characters": config.reading.part_characters,
        **{name: metadata.version(name) for name in _PACKAGES},
    }


def make_part(
    documents: list[Document], path: Path, *, vocabulary: Path, config: BuildConfig
) -> dict[str, Any]:
    """Clean, split and tokenize documents, and write them as a shard.

    `vocabulary` is the directory of the tokenizer. Return counts, and which documents came as paragraphs.
    """
    tokenizer = cached_tokenizer(vocabulary)
    cleaned, counts = clean_all(documents, config.reading.cleaning)
    assert config.language is not None
    split = partial(split_sentences, language=config.language, splitter=config.splitter)
    sentences_of_lines = [sentences for document in cleaned for sentences in document.split_lines(split)]
    texts = [sentence for sentences in sentences_of_lines for sentence in sentences]
    tokens, lengths = tokenizer.ids(texts)
    kept, shard = _assemble(cleaned, list(map(len, sentences_of_lines)), tokens, lengths)
    summary = replace(
        count_shard(shard, tokenizer), empty_documents=len(cleaned) - len(kept), cleaning=counts
    )
    if config.segmenter is not None:
        continues = [np.zeros(0, np.bool_)]
        for text in texts:
            words = split_with_function(text, config.segmenter, "segmenter")
            word_of_token = np.searchsorted(
                [start for start, _ in words], tokenizer.starts(text), side="right"
            )
            continues.append(np.diff(word_of_token, prepend=-1) == 0)
        shard = replace(shard, token_ids=tokens + tokenizer.vocab_size * np.concatenate(continues))
    write_shard(path, shard, vocab_size=tokenizer.vocab_size)
    return {**asdict(summary), "running_text": [document.kind == "paragraphs" for document in kept]}


def _assemble(
    documents: Sequence[Document],
    sentences_of_lines: Sequence[int],
    tokens: npt.NDArray[Any],
    lengths: Integers,
) -> tuple[list[Document], Shard]:
    """Make a shard of documents, and leave out sentences and documents without tokens.

    `tokens` and `lengths` are those of all sentences; `sentences_of_lines` is the number of sentences of each line.
    """
    lines = [(document, line) for document in documents for line in document.lines]
    line_bounds = to_offsets([len(document.lines) for document in documents])
    sentence_bounds = to_offsets(lengths > 0)[to_offsets(sentences_of_lines)]  # of the lines, in the shard
    is_long = [
        document.kind == "paragraphs" and len(line) >= LONG_PARAGRAPH_CHARACTERS for document, line in lines
    ]
    long = np.flatnonzero(np.array(is_long, np.bool_) & (np.diff(sentence_bounds) > 0))
    sentences_D = np.diff(sentence_bounds[line_bounds])
    long_paragraphs_D = np.diff(np.searchsorted(long, line_bounds))
    is_kept_D = sentences_D > 0
    kept = [document for document, is_kept in zip(documents, is_kept_D, strict=True) if is_kept]
    return kept, Shard(
        token_ids=tokens,
        sentence_offsets=to_offsets(lengths[lengths > 0]),
        document_offsets=to_offsets(sentences_D[is_kept_D]),
        document_digests=text_digests(document.lines for document in kept),
        paragraph_offsets=to_offsets(long_paragraphs_D[is_kept_D]),
        paragraph_digests=text_digests([lines[number][1]] for number in long),
        paragraph_starts=sentence_bounds[long],
        paragraph_ends=sentence_bounds[long + 1],
    )


def hash_tokenizer(tokenizer: WordPieceTokenizer) -> str:
    """Hash all settings that token ids depend on."""
    table = {**asdict(tokenizer), "model_max_length": None}
    table["added_tokens"] = sorted(tokenizer.added_tokens, key=tokenizer.tokens.index)
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


cached_tokenizer = lru_cache(maxsize=1)(
    load_wordpiece
)  # a worker makes many parts, and the tokenizer caches words
