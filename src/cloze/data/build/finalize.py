"""Make a data set of finished parts: drop duplicates, hold out documents, and write the directory in one step.

    duplicate_documents    documents with the text of an earlier one
    duplicate_paragraphs   paragraphs of about twenty words or more with the text of an earlier one

Text in the format `sentences` (Google's) is kept with its duplicates.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from cloze.data.build.cleaning import MAX_EXAMPLES, no_text_error
from cloze.data.build.directory import modification_time, remove_parts, write_output
from cloze.data.build.duplicates import Duplicate, DuplicateCounts, Mask, drop_from_shard, find_duplicates
from cloze.data.build.part_files import BuildPlan, Part
from cloze.data.build.parts import BuildSummary, count_shard
from cloze.data.dataset import (
    KIND,
    REPORT_FILE,
    Dataset,
    DatasetInfo,
    choose_held_out_threshold,
    choose_validation_fraction,
    split_documents,
    without_words,
)
from cloze.data.shards import Digests, Integers, Offsets, Shard, shard_name, write_shard
from cloze.tokenization.tokenizer import Tokenizer

_EXCERPT_TOKENS = 16


def finalize(
    output: Path, plan: BuildPlan, parts: Sequence[Part], tokenizer: Tokenizer, *, overwrite: bool
) -> BuildSummary:
    """Make a data set of all parts of a plan, with the tokenizer that made them.

    The shards and the held-out documents of a data set that is appended to stay as they are; of a single document the
    end is no longer held out.
    """
    settings = plan.settings
    appends_to = modification_time(output) if settings["append"] else None
    dataset = Dataset.open(output) if settings["append"] else None
    old = [_Source(path) for path in dataset.shards] if dataset else []
    new = [_Source(part.path, part) for part in parts]
    sources = [*old, *new]
    units = [_documents_of(source.shard) for source in sources]
    everywhere = [np.ones(len(unit.digests), np.bool_) for unit in units]
    keep = "duplicate_documents" in settings["skipped_final_steps"]
    documents, duplicate_documents = _choose_duplicates(sources, units, everywhere, tokenizer, keep=keep)
    units = [_paragraphs_of(source.shard) for source in sources]
    elsewhere = [~dropped_D[unit.documents] for unit, dropped_D in zip(units, documents, strict=True)]
    keep = "duplicate_paragraphs" in settings["skipped_final_steps"]
    paragraphs, duplicate_paragraphs = _choose_duplicates(sources, units, elsewhere, tokenizer, keep=keep)
    summary = BuildSummary(duplicate_documents=duplicate_documents, duplicate_paragraphs=duplicate_paragraphs)
    with write_output(
        output, plan, kind=KIND, overwrite=overwrite or dataset is not None, appends_to=appends_to
    ) as directory:
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
        if not (summary.documents or duplicate_documents.dropped or duplicate_paragraphs.dropped):
            remove_parts(output)
            raise no_text_error(settings["inputs"], summary.cleaning)
        _write_info(directory, summary, dataset, plan, tokenizer.vocab_size)
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


def _write_info(
    directory: Path, summary: BuildSummary, dataset: Dataset | None, plan: BuildPlan, vocab_size: int
) -> None:
    """Choose the held-out documents, unless the data set that is appended to has some, and write `dataset.json`."""
    names = ("documents", "sentences", "tokens", "unknown_tokens")
    if dataset and dataset.info.documents == 1 and summary.documents:
        held_out_below = 0  # the end of a single document was held out
    else:
        held_out_below = dataset.info.held_out_below if dataset else 0
    info = DatasetInfo(
        vocab_size=vocab_size,
        held_out_below=held_out_below,
        has_words=plan.settings["segmenter"] is not None,
        **{name: getattr(summary, name) + (getattr(dataset.info, name) if dataset else 0) for name in names},
    )
    documents = info.map_documents(sorted(directory.glob("*.arrow"))).cut()
    if not info.held_out_below:
        several = documents.select(np.flatnonzero(documents.num_sentences >= 2))
        fraction = plan.settings["validation_fraction"] or choose_validation_fraction(
            several.digests, several.lengths
        )
        threshold = choose_held_out_threshold(several.digests, fraction, on_each_side=2)
        info = replace(info, held_out_below=threshold)
    info.write(directory, split_documents(documents, info, "train").token_counts(vocab_size))


def _link(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError:
        shutil.copyfile(old, new)


class _Source:
    """A shard of the data set that is appended to, or a part of the build."""

    def __init__(self, path: Path, part: Part | None = None) -> None:
        self.path = path
        self.shard = Shard.open(path)
        self.is_new = part is not None
        self._part = part

    def without(self, documents: Mask, paragraphs: Mask, tokenizer: Tokenizer) -> tuple[Shard, BuildSummary]:
        """Return the shard of a part without some documents and paragraphs, and its counts."""
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
        if self._part is None:
            return f"in the data set, document {document} of {self.path.name}"
        groups = self._part.record["places"]
        places: list[str] = [group["file"] + place for group in groups for place in group["places"]]
        return places[document]


@dataclass(frozen=True, slots=True)
class _Units:
    """The documents or the paragraphs of a shard."""

    digests: Digests
    documents: Integers
    """The document that contains each."""
    starts: Offsets
    """The first sentence of each."""
    ends: Offsets
    """The sentence after the last of each."""


def _documents_of(shard: Shard) -> _Units:
    bounds = shard.document_offsets
    return _Units(shard.document_digests, np.arange(len(bounds) - 1), bounds[:-1], bounds[1:])


def _paragraphs_of(shard: Shard) -> _Units:
    documents = np.repeat(np.arange(len(shard.document_digests)), np.diff(shard.paragraph_offsets))
    return _Units(shard.paragraph_digests, documents, shard.paragraph_starts, shard.paragraph_ends)


def _choose_duplicates(
    sources: Sequence[_Source],
    units: Sequence[_Units],
    among: Sequence[Mask],
    tokenizer: Tokenizer,
    *,
    keep: bool,
) -> tuple[list[Mask], DuplicateCounts]:
    """Return which documents or paragraphs of each source are dropped, and counts with examples."""
    duplicates = find_duplicates([unit.digests for unit in units], among)
    chosen = [np.zeros_like(mask) for mask in duplicates]
    counts = DuplicateCounts()
    for source, unit, is_duplicate, is_dropped in zip(sources, units, duplicates, chosen, strict=True):
        if not (source.is_new and is_duplicate.any()):
            continue
        if not keep:
            is_dropped |= is_duplicate & source.is_running_text()[unit.documents]
        starts, ends = (source.shard.sentence_offsets[bounds] for bounds in (unit.starts, unit.ends))
        examples = []
        for number in np.flatnonzero(is_dropped)[: MAX_EXAMPLES - len(counts.examples)]:
            tokens = source.shard.token_ids[starts[number] : ends[number]][:_EXCERPT_TOKENS]
            text = tokenizer.decode(without_words(tokens, tokenizer.vocab_size).tolist())
            first = _first_place(sources, units, among, unit.digests[number])
            where = source.where(int(unit.documents[number]))
            examples.append(Duplicate(where=where, first=first, text=text))
        counts += DuplicateCounts(
            dropped=int(is_dropped.sum()),
            kept=int((is_duplicate & ~is_dropped).sum()),
            tokens=int((ends - starts)[is_dropped].sum()),
            examples=tuple(examples),
        )
    return chosen, counts


def _first_place(
    sources: Sequence[_Source], units: Sequence[_Units], among: Sequence[Mask], digest: np.uint64
) -> str:
    for source, unit, mask in zip(sources, units, among, strict=True):
        places = np.flatnonzero((unit.digests == digest) & mask)
        if len(places):
            return source.where(int(unit.documents[places[0]]))
    raise AssertionError("a duplicate has an original")
