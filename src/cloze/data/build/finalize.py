"""Make a data set of finished parts: drop duplicates, hold out documents, and write the directory in one step.

    duplicate_documents    documents with the text of an earlier one
    duplicate_paragraphs   paragraphs of about twenty words or more with the text of an earlier one

Text in the format `sentences` (Google's) is kept with its duplicates.
"""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cloze.data.build.cleaning import no_text_error
from cloze.data.build.directory import modification_time, remove_parts, write_output
from cloze.data.build.duplicates import DuplicateCounts, Mask, drop_from_shard, find_duplicates
from cloze.data.build.part_files import BuildPlan, read_record
from cloze.data.build.parts import BuildSummary, count_shard
from cloze.data.dataset import (
    KIND,
    REPORT_FILE,
    Dataset,
    DatasetInfo,
    Documents,
    choose_held_out_threshold,
    choose_validation_fraction,
    split_documents,
)
from cloze.data.shards import Digests, Integers, Offsets, Shard, write_shard
from cloze.tokenization.tokenizer import Tokenizer


def finalize(
    output: Path, plan: BuildPlan, parts: Sequence[Path], tokenizer: Tokenizer, *, overwrite: bool
) -> BuildSummary:
    """Make a data set of all parts of a plan, with the tokenizer that made them.

    The shards and the held-out documents of a data set that is appended to stay as they are; of a single document the
    end is no longer held out.
    """
    settings = plan.settings
    appends_to = modification_time(output) if settings["append"] else None
    dataset = Dataset.open(output, verify=False) if settings["append"] else None
    old = dataset.shards if dataset else ()
    shards = [Shard.open(path) for path in (*old, *parts)]
    records = list(map(read_record, parts))
    running_text = [np.array(record.pop("running_text"), np.bool_) for record in records]
    skipped = settings["skipped_final_steps"]
    remaining = [np.ones(len(shard.document_digests), np.bool_) for shard in shards]
    dropped_documents, duplicate_documents = _choose_duplicates(
        shards, _document_units, remaining, running_text, keep="duplicate_documents" in skipped
    )
    remaining = [~dropped_D for dropped_D in dropped_documents]
    dropped_paragraphs, duplicate_paragraphs = _choose_duplicates(
        shards, _paragraph_units, remaining, running_text, keep="duplicate_paragraphs" in skipped
    )
    summary = BuildSummary(duplicate_documents=duplicate_documents, duplicate_paragraphs=duplicate_paragraphs)
    with write_output(
        output, plan, kind=KIND, overwrite=overwrite or dataset is not None, appends_to=appends_to
    ) as directory:
        tokenizer.save(directory)
        paths = (directory / f"documents-{number:05}.arrow" for number in count())
        for path in old:
            _link(path, next(paths))
        for part, record, shard, dropped_D, dropped_Q in zip(
            parts,
            records,
            shards[len(old) :],
            dropped_documents[len(old) :],
            dropped_paragraphs[len(old) :],
            strict=True,
        ):
            counts = BuildSummary.from_dict(record)
            if not (dropped_D.any() or dropped_Q.any()):
                if counts.documents:
                    _link(part, next(paths))
            else:
                left = drop_from_shard(shard, dropped_D, dropped_Q)
                emptied = int((~dropped_D).sum()) - len(left.document_digests) + counts.empty_documents
                counts = replace(
                    count_shard(left, tokenizer), cleaning=counts.cleaning, empty_documents=emptied
                )
                if counts.documents:
                    write_shard(next(paths), left, vocab_size=tokenizer.vocab_size)
            summary += counts
        if not (summary.documents or duplicate_documents.dropped or duplicate_paragraphs.dropped):
            remove_parts(output)
            raise no_text_error(settings["inputs"], summary.cleaning)
        _write_info(directory, summary, dataset, plan, tokenizer.vocab_size)
        builds = [*(_read_builds(dataset.path) if dataset else []), asdict(summary)]
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
    counts = {name: getattr(summary, name) for name in names}
    if dataset is None:
        splitter = plan.settings["splitter"]
        info = DatasetInfo(
            vocab_size=vocab_size,
            held_out_below=0,
            has_words=plan.settings["segmenter"] is not None,
            language=plan.settings["language"],
            splitter=splitter and splitter[0],  # without its hash
            **counts,
        )
    else:
        before = dataset.info
        info = replace(before, **{name: getattr(before, name) + count for name, count in counts.items()})
        if before.documents == 1 and summary.documents:
            info = replace(info, held_out_below=0)  # the end of a single document was held out
    documents = Documents.from_shards(sorted(directory.glob("*.arrow")), info.vocab_size_with_words).cut()
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


class _Units(NamedTuple):
    """The documents or the paragraphs of a shard: the document of each, its first sentence, and the one after it."""

    digests: Digests
    documents: Integers
    starts: Offsets
    ends: Offsets


def _document_units(shard: Shard) -> _Units:
    offsets = shard.document_offsets
    return _Units(shard.document_digests, np.arange(len(offsets) - 1), offsets[:-1], offsets[1:])


def _paragraph_units(shard: Shard) -> _Units:
    documents = np.repeat(np.arange(len(shard.document_digests)), np.diff(shard.paragraph_offsets))
    return _Units(shard.paragraph_digests, documents, shard.paragraph_starts, shard.paragraph_ends)


def _choose_duplicates(
    shards: Sequence[Shard],
    units_of: Callable[[Shard], _Units],
    remaining: Sequence[Mask],
    running_text: Sequence[Mask],
    *,
    keep: bool,
) -> tuple[list[Mask], DuplicateCounts]:
    """Return which documents or paragraphs of each shard are dropped, and counts.

    `remaining` has the documents of each shard that are not dropped. `running_text` has the new shards, the last
    ones: which documents came as paragraphs. The others keep all.
    """
    units = list(map(units_of, shards))
    among = [mask[unit.documents] for mask, unit in zip(remaining, units, strict=True)]
    duplicates = find_duplicates([unit.digests for unit in units], among)
    chosen = [np.zeros_like(mask) for mask in duplicates]
    counts = DuplicateCounts()
    new = slice(len(shards) - len(running_text), None)
    for shard, unit, is_duplicate, is_dropped, is_text in zip(
        shards[new], units[new], duplicates[new], chosen[new], running_text, strict=True
    ):
        if not keep:
            is_dropped |= is_duplicate & is_text[unit.documents]
        tokens = shard.sentence_offsets[unit.ends] - shard.sentence_offsets[unit.starts]
        counts += DuplicateCounts(
            dropped=int(is_dropped.sum()),
            kept=int((is_duplicate & ~is_dropped).sum()),
            tokens=int(tokens[is_dropped].sum()),
        )
    return chosen, counts
