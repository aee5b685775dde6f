"""Finished parts to a data set: duplicates go, some documents are held out, and all takes its place in one step.

    duplicate_documents    documents whose text stood before
    duplicate_paragraphs   paragraphs of about twenty words or more whose text stood before

Text that comes as sentences (Google's format) is kept as it is, with what stands twice in it.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze import artifacts
from cloze.corpus.cleaning import CleaningCounts, Step
from cloze.corpus.duplicates import MAX_EXAMPLES, Mask, Repeat, RepeatCounts, find_repeats, without
from cloze.corpus.stage import Part, Stage
from cloze.corpus.store import (
    KIND,
    REPORT,
    Dataset,
    Digests,
    Facts,
    Offsets,
    Shard,
    choose_held_out,
    shard_name,
    write_facts,
    write_shard,
)
from cloze.errors import InputError
from cloze.text.tokenizer import Tokenizer

_EXCERPT_PIECES = 16


@dataclass(frozen=True, slots=True)
class Summary:
    """What was made of a text."""

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    """Pieces that are [UNK]."""
    single_sentence_documents: int = 0
    """They make no pair."""
    empty_documents: int = 0
    """Left out: the tokenizer's cleaning left nothing of them, or all their paragraphs stood before."""
    cleaning: CleaningCounts = CleaningCounts()
    duplicate_documents: RepeatCounts = RepeatCounts()
    duplicate_paragraphs: RepeatCounts = RepeatCounts()

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> "Summary":
        """Return what `asdict` was made of."""
        parts = {
            "cleaning": CleaningCounts.from_dict(table["cleaning"]),
            "duplicate_documents": RepeatCounts.from_dict(table["duplicate_documents"]),
            "duplicate_paragraphs": RepeatCounts.from_dict(table["duplicate_paragraphs"]),
        }
        return cls(**table | parts)


def count_shard(shard: Shard, unk_id: int) -> Summary:
    """Count what is in a shard."""
    sentences_D = shard.sentences_of_documents
    return Summary(
        documents=len(sentences_D),
        sentences=int(sentences_D.sum()),
        pieces=len(shard.pieces),
        unknown_pieces=int((shard.pieces == unk_id).sum()),
        single_sentence_documents=int((sentences_D == 1).sum()),
    )


def read_summary(directory: Path) -> Summary:
    """Return what the last build of a data set reported."""
    return Summary.from_dict(_read_builds(directory)[-1])


def seal(
    stage: Stage,
    tokenizer: Tokenizer,
    *,
    validation_fraction: float,
    left_out: Sequence[Step],
    dataset: Dataset | None,
    overwrite: bool,
) -> Summary:
    """Make a data set of the parts of a stage.

    Args:
        stage: all its parts are finished and whole.
        tokenizer: that the parts were made with.
        validation_fraction: share of the documents to hold out from training.
        left_out: steps that are not taken.
        dataset: what to append to. Its shards, and what it holds out, stay as they are.
        overwrite: replace the output.

    Returns:
        What was made of the text of these parts.

    Raises:
        InputError: parts are missing, there is no text in them, or the output exists.
        RunError: the disk is full.
    """
    old = [_Source(path) for path in dataset.shards] if dataset else []
    new = [_Source(part.path, part) for part in stage.parts()]
    sources = [*old, *new]
    everywhere = [np.ones(len(source.shard.document_digests), np.bool_) for source in sources]
    documents, duplicate_documents = _choose_repeats(
        _DOCUMENTS, sources, everywhere, tokenizer, keep="duplicate_documents" in left_out
    )
    in_the_rest = [
        ~gone[_PARAGRAPHS.documents(source.shard)] for source, gone in zip(sources, documents, strict=True)
    ]
    paragraphs, duplicate_paragraphs = _choose_repeats(
        _PARAGRAPHS, sources, in_the_rest, tokenizer, keep="duplicate_paragraphs" in left_out
    )
    summary = Summary(duplicate_documents=duplicate_documents, duplicate_paragraphs=duplicate_paragraphs)
    digests = [source.shard.digests_of_long_documents for source in old]
    with artifacts.write_directory(
        stage.output,
        kind=KIND,
        overwrite=overwrite or dataset is not None,
        room=stage.directory,
        when_sealed=stage.when_sealed,
    ) as directory:
        tokenizer.save(directory)
        names = map(shard_name, count())
        for source in old:
            _link(source.path, directory / next(names))
        for source, some, others in zip(new, documents[len(old) :], paragraphs[len(old) :], strict=True):
            shard, made = source.without(some, others, tokenizer.unk_id)
            if shard is source.shard and made.documents:
                _link(source.path, directory / next(names))
            elif made.documents:
                write_shard(directory / next(names), shard, vocab_size=tokenizer.vocab_size)
            summary += made
            digests.append(shard.digests_of_long_documents)
        dropped = summary.duplicate_documents.dropped or summary.duplicate_paragraphs.dropped
        if not (summary.documents or dropped):
            stage.remove()
            raise InputError("no text in it", where=", ".join(stage.plan["sealing"]["inputs"]))
        held_out_below = dataset.facts.held_out_below if dataset else 0
        write_facts(
            directory,
            _facts(
                summary,
                dataset,
                vocab_size=tokenizer.vocab_size,
                held_out_below=held_out_below
                or choose_held_out(digests, validation_fraction, on_each_side=2),
            ),
        )
        _write_report(directory, [*(_read_builds(dataset.path) if dataset else []), asdict(summary)])
    return summary


def _facts(summary: Summary, dataset: Dataset | None, *, vocab_size: int, held_out_below: int) -> Facts:
    """Add what was made to what was there."""

    def total(name: str) -> int:
        return int(getattr(summary, name)) + (getattr(dataset.facts, name) if dataset else 0)

    return Facts(
        vocab_size=vocab_size,
        documents=total("documents"),
        sentences=total("sentences"),
        pieces=total("pieces"),
        unknown_pieces=total("unknown_pieces"),
        held_out_below=held_out_below,
    )


def _write_report(directory: Path, builds: list[dict[str, Any]]) -> None:
    text = json.dumps({"builds": builds}, indent=1, ensure_ascii=False) + "\n"
    (directory / REPORT).write_text(text, encoding="utf-8", errors="backslashreplace")


def _read_builds(directory: Path) -> list[dict[str, Any]]:
    builds: list[dict[str, Any]] = json.loads((directory / REPORT).read_text("utf-8"))["builds"]
    return builds


def _link(old: Path, new: Path) -> None:
    """Let a file have a second name, or copy it where the disk knows no such thing."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


class _Source:
    """A shard that is there, or a part that becomes one."""

    def __init__(self, path: Path, part: Part | None = None) -> None:
        self.path = path
        self.shard = Shard.open(path)
        self.is_new = part is not None
        self._part = part

    def without(self, documents: Mask, paragraphs: Mask, unk_id: int) -> tuple[Shard, Summary]:
        """Return what is left of a part, and what that is."""
        assert self._part
        summary = Summary.from_dict(self._part.record["summary"])
        if not (documents.any() or paragraphs.any()):
            return self.shard, summary
        shard = without(self.shard, documents, paragraphs)
        emptied = len(documents) - int(documents.sum()) - len(shard.document_digests)
        emptied += summary.empty_documents
        return shard, replace(count_shard(shard, unk_id), cleaning=summary.cleaning, empty_documents=emptied)

    def is_running_text(self) -> Mask:
        """Say of each document whether its sentences were found here, not by whoever wrote the file."""
        assert self._part
        runs = self._part.record["documents"]
        kinds = np.array([run["kind"] == "paragraphs" for run in runs], np.bool_)
        return np.repeat(kinds, [len(run["places"]) for run in runs])

    def where(self, document: int) -> str:
        """Return where a document was read."""
        if self._part is None:
            return f"in the data set, document {document} of {self.path.name}"
        runs = self._part.record["documents"]
        places: list[str] = [run["file"] + place for run in runs for place in run["places"]]
        return places[document]


@dataclass(frozen=True, slots=True)
class _Things:
    """What may stand twice, in terms of a shard."""

    digests: Callable[[Shard], Digests]
    documents: Callable[[Shard], npt.NDArray[np.int64]]
    """The document that each is in."""
    sentences: Callable[[Shard], tuple[Offsets, Offsets]]
    """The first sentence of each, and the one after its last."""


_DOCUMENTS = _Things(
    digests=lambda shard: shard.document_digests,
    documents=lambda shard: np.arange(len(shard.document_digests)),
    sentences=lambda shard: (shard.document_offsets[:-1], shard.document_offsets[1:]),
)
_PARAGRAPHS = _Things(
    digests=lambda shard: shard.paragraph_digests,
    documents=lambda shard: np.repeat(
        np.arange(len(shard.document_digests)), np.diff(shard.paragraph_offsets)
    ),
    sentences=lambda shard: (shard.paragraph_starts, shard.paragraph_ends),
)


def _choose_repeats(
    things: _Things, sources: Sequence[_Source], among: Sequence[Mask], tokenizer: Tokenizer, *, keep: bool
) -> tuple[list[Mask], RepeatCounts]:
    """Say which things of each source are to be dropped, and count them."""
    repeats = find_repeats([things.digests(source.shard) for source in sources], among)
    chosen = [np.zeros_like(found) for found in repeats]
    counts = RepeatCounts()
    for source, found, dropped in zip(sources, repeats, chosen, strict=True):
        if not (source.is_new and found.any()):
            continue
        documents = things.documents(source.shard)
        if not keep:
            dropped |= found & source.is_running_text()[documents]
        starts, ends = (source.shard.sentence_offsets[bounds] for bounds in things.sentences(source.shard))
        examples = [
            Repeat(
                where=source.where(int(documents[number])),
                first=_first_place(things, sources, among, things.digests(source.shard)[number]),
                text=tokenizer.decode(
                    source.shard.pieces[starts[number] : ends[number]][:_EXCERPT_PIECES].tolist()
                ),
            )
            for number in np.flatnonzero(dropped)[: MAX_EXAMPLES - len(counts.examples)]
        ]
        counts += RepeatCounts(
            dropped=int(dropped.sum()),
            kept=int((found & ~dropped).sum()),
            pieces=int((ends - starts)[dropped].sum()),
            examples=tuple(examples),
        )
    return chosen, counts


def _first_place(
    things: _Things, sources: Sequence[_Source], among: Sequence[Mask], digest: np.uint64
) -> str:
    for source, mask in zip(sources, among, strict=True):
        places = np.flatnonzero((things.digests(source.shard) == digest) & mask)
        if len(places):
            return source.where(int(things.documents(source.shard)[places[0]]))
    raise AssertionError("what repeats has stood before")
