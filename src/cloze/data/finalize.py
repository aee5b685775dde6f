"""Make a data set of finished parts: drop duplicates, hold out documents, and put the directory in place in one step.

    duplicate_documents    documents with the text of an earlier one
    duplicate_paragraphs   paragraphs of about twenty words or more with the text of an earlier one

Text in the format `sentences` (Google's) is kept with its duplicates.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.data.build_directory import parts_directory, remove_parts, write_output
from cloze.data.build_plan import BuildPlan
from cloze.data.counts import MAX_EXAMPLES
from cloze.data.dataset import KIND, REPORT_FILE, Dataset, DatasetInfo, split_documents, without_words
from cloze.data.duplicates import Duplicate, DuplicateCounts, Mask, drop_from_shard, find_duplicates
from cloze.data.held_out import choose_held_out_threshold, choose_validation_fraction
from cloze.data.part_files import Part, list_parts
from cloze.data.parts import BuildSummary, count_shard
from cloze.data.shards import Digests, Offsets, Shard, shard_name, write_shard
from cloze.errors import InputError
from cloze.tokenization.tokenizer import Tokenizer

_EXCERPT_TOKENS = 16


def finalize(output: Path, plan: BuildPlan, tokenizer: Tokenizer, *, overwrite: bool) -> BuildSummary:
    """Make a data set of the parts of a plan, all of which exist, with the tokenizer that made them.

    The shards and the held-out documents of a data set that is appended to stay as they are.
    """
    skipped_steps = plan.settings["skipped_final_steps"]
    dataset = Dataset.open(output) if plan.settings["append"] else None
    old = [_Source(path) for path in dataset.shards] if dataset else []
    new = [_Source(part.path, part) for part in list_parts(parts_directory(output), plan)]
    sources = [*old, *new]
    everywhere = [np.ones(len(source.shard.document_digests), np.bool_) for source in sources]
    documents, duplicate_documents = _choose_duplicates(
        _DOCUMENTS, sources, everywhere, tokenizer, keep="duplicate_documents" in skipped_steps
    )
    elsewhere = [
        ~dropped[_PARAGRAPHS.documents(source.shard)]
        for source, dropped in zip(sources, documents, strict=True)
    ]
    paragraphs, duplicate_paragraphs = _choose_duplicates(
        _PARAGRAPHS, sources, elsewhere, tokenizer, keep="duplicate_paragraphs" in skipped_steps
    )
    summary = BuildSummary(duplicate_documents=duplicate_documents, duplicate_paragraphs=duplicate_paragraphs)
    digests = [source.shard.multi_sentence_digests for source in old]
    lengths = [source.shard.multi_sentence_lengths for source in old]
    with write_output(output, plan, kind=KIND, overwrite=overwrite or dataset is not None) as directory:
        tokenizer.save(directory)
        paths = (directory / shard_name(number) for number in count())
        for source in old:
            _link(source.path, next(paths))
        for source, dropped_D, dropped_Q in zip(
            new, documents[len(old) :], paragraphs[len(old) :], strict=True
        ):
            shard, counts = source.without(dropped_D, dropped_Q, tokenizer)
            if shard is source.shard and counts.documents:
                _link(source.path, next(paths))
            elif counts.documents:
                write_shard(next(paths), shard, vocab_size=tokenizer.vocab_size)
            summary += counts
            digests.append(shard.multi_sentence_digests)
            lengths.append(shard.multi_sentence_lengths)
        if not (summary.documents or duplicate_documents.dropped or duplicate_paragraphs.dropped):
            remove_parts(output)
            raise InputError("no text in it", where=", ".join(plan.settings["inputs"]))
        info = _total_info(summary, dataset, tokenizer.vocab_size)
        if not info.held_out_below:
            fraction = plan.settings["validation_fraction"] or choose_validation_fraction(digests, lengths)
            threshold = choose_held_out_threshold(digests, fraction, on_each_side=2)
            info = replace(info, held_out_below=threshold)
        info = replace(info, has_words=plan.settings["segmenter"] is not None)
        written = info.map_documents(sorted(directory.glob("*.arrow")))
        train = split_documents(written, info, "train")
        info.write(directory, train.token_counts(info.vocab_size))
        builds = [*(_read_builds(dataset.path) if dataset else []), summary.as_dict()]
        text = json.dumps({"builds": builds}, indent=1, ensure_ascii=False) + "\n"
        (directory / REPORT_FILE).write_text(text, encoding="utf-8", errors="backslashreplace")
    return summary


def read_summary(directory: Path) -> BuildSummary:
    """Return the counts of the last build of a data set."""
    return BuildSummary.from_dict(_read_builds(directory)[-1])


def _read_builds(directory: Path) -> list[dict[str, Any]]:
    builds: list[dict[str, Any]] = json.loads((directory / REPORT_FILE).read_text("utf-8"))["builds"]
    return builds


def _total_info(summary: BuildSummary, dataset: Dataset | None, vocab_size: int) -> DatasetInfo:
    """Add the counts of what was built to those of the data set which it is appended to."""
    names = ("documents", "sentences", "tokens", "unknown_tokens")
    totals = {
        name: getattr(summary, name) + (getattr(dataset.info, name) if dataset else 0) for name in names
    }
    held_out_below = dataset.info.held_out_below if dataset else 0
    return DatasetInfo(vocab_size=vocab_size, held_out_below=held_out_below, **totals)


def _link(old: Path, new: Path) -> None:
    """Link a file, or copy it if the file system cannot."""
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


class _Source:
    """A shard of the data set which is appended to, or a part of the build."""

    def __init__(self, path: Path, part: Part | None = None) -> None:
        self.path = path
        self.shard = Shard.open(path)
        self.is_new = part is not None
        self._part = part

    def without(self, documents: Mask, paragraphs: Mask, tokenizer: Tokenizer) -> tuple[Shard, BuildSummary]:
        """Return what is left of a part without some documents and paragraphs, and its counts."""
        assert self._part
        record = self._part.record
        del record["places"]
        summary = BuildSummary.from_dict(record)
        if not (documents.any() or paragraphs.any()):
            return self.shard, summary
        shard = drop_from_shard(self.shard, documents, paragraphs)
        emptied = len(documents) - int(documents.sum()) - len(shard.document_digests)
        emptied += summary.empty_documents
        return shard, replace(
            count_shard(shard, tokenizer), cleaning=summary.cleaning, empty_documents=emptied
        )

    def is_running_text(self) -> Mask:
        """Return which documents came as paragraphs."""
        assert self._part
        groups = self._part.record["places"]
        kinds = np.array([group["kind"] == "paragraphs" for group in groups], np.bool_)
        return np.repeat(kinds, [len(group["places"]) for group in groups])

    def where(self, document: int) -> str:
        """Return where a document was read."""
        if self._part is None:
            return f"in the data set, document {document} of {self.path.name}"
        groups = self._part.record["places"]
        places: list[str] = [group["file"] + place for group in groups for place in group["places"]]
        return places[document]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Documents or paragraphs, as arrays over those of a shard."""

    digests: Callable[[Shard], Digests]
    documents: Callable[[Shard], npt.NDArray[np.int64]]
    """The document that contains each."""
    sentences: Callable[[Shard], tuple[Offsets, Offsets]]
    """The first sentence of each, and the one after its last."""


_DOCUMENTS = _Unit(
    digests=lambda shard: shard.document_digests,
    documents=lambda shard: np.arange(len(shard.document_digests)),
    sentences=lambda shard: (shard.document_offsets[:-1], shard.document_offsets[1:]),
)
_PARAGRAPHS = _Unit(
    digests=lambda shard: shard.paragraph_digests,
    documents=lambda shard: np.repeat(
        np.arange(len(shard.document_digests)), np.diff(shard.paragraph_offsets)
    ),
    sentences=lambda shard: (shard.paragraph_starts, shard.paragraph_ends),
)


def _choose_duplicates(
    unit: _Unit, sources: Sequence[_Source], among: Sequence[Mask], tokenizer: Tokenizer, *, keep: bool
) -> tuple[list[Mask], DuplicateCounts]:
    """Return which documents or paragraphs of each source are to be dropped, and counts with examples."""
    duplicates = find_duplicates([unit.digests(source.shard) for source in sources], among)
    chosen = [np.zeros_like(mask) for mask in duplicates]
    counts = DuplicateCounts()
    for source, is_duplicate, is_dropped in zip(sources, duplicates, chosen, strict=True):
        if not (source.is_new and is_duplicate.any()):
            continue
        documents = unit.documents(source.shard)
        if not keep:
            is_dropped |= is_duplicate & source.is_running_text()[documents]
        starts, ends = (source.shard.sentence_offsets[bounds] for bounds in unit.sentences(source.shard))
        examples = []
        for number in np.flatnonzero(is_dropped)[: MAX_EXAMPLES - len(counts.examples)]:
            tokens = source.shard.token_ids[starts[number] : ends[number]][:_EXCERPT_TOKENS]
            first = _first_place(unit, sources, among, unit.digests(source.shard)[number])
            text = tokenizer.decode(without_words(tokens, tokenizer.vocab_size).tolist())
            examples.append(Duplicate(where=source.where(int(documents[number])), first=first, text=text))
        counts += DuplicateCounts(
            dropped=int(is_dropped.sum()),
            kept=int((is_duplicate & ~is_dropped).sum()),
            tokens=int((ends - starts)[is_dropped].sum()),
            examples=tuple(examples),
        )
    return chosen, counts


def _first_place(unit: _Unit, sources: Sequence[_Source], among: Sequence[Mask], digest: np.uint64) -> str:
    for source, mask in zip(sources, among, strict=True):
        places = np.flatnonzero((unit.digests(source.shard) == digest) & mask)
        if len(places):
            return source.where(int(unit.documents(source.shard)[places[0]]))
    raise AssertionError("a duplicate has an original")
