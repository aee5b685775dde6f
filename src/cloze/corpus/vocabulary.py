"""Text to a vocabulary: words are counted part by part, and the pieces learned from the counts.

The counts of a part are a file (`cloze.corpus.stage`), so counting that was cut off goes on where it was, and other
sizes of a vocabulary can be learned without counting again as long as the parts are there.
"""

from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cloze import artifacts
from cloze.corpus import stage as stages
from cloze.corpus.cleaning import CleaningConfig, CleaningCounts, clean_all
from cloze.corpus.documents import Document
from cloze.corpus.sources import ReadingConfig, describe_formats, plan_stretches
from cloze.corpus.stage import Part
from cloze.errors import InputError
from cloze.executor import Workers
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.text.vocabulary import learn_vocabulary, reserved_pieces
from cloze.text.words import count_words

KIND = "vocabulary"
_SCHEMA = pa.schema([("word", pa.large_string()), ("count", pa.int64())])
_PACKAGES = ("cloze-bert", "tokenizers")  # that decide on the counts
_ROWS_AT_ONCE = 1 << 21  # of counts that are added up together, or as many as there are distinct words


def train_vocabulary(
    inputs: Sequence[str | Path],
    output: Path,
    *,
    reading: ReadingConfig = ReadingConfig(),
    size: int = 30_522,
    lowercase: bool = True,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Tokenizer:
    """Learn a WordPiece vocabulary from text: the same bytes from the same text, whatever the workers.

    Args:
        inputs: files, folders, globs, or - for stdin; plain or .gz, .bz2, .xz, .zst.
        output: directory for vocab.txt and the tokenizer.
        reading: what the inputs hold and how it is cleaned.
        size: pieces, special ones included.
        lowercase: False keeps case and accents.
        workers: processes, or a cluster.
        overwrite: replace the output.
        progress: where to tell how far it is.

    Raises:
        InputError: the text is wrong or too little for so many pieces; nothing was written.
        RunError: the disk is full.
    """
    output = Path(output)
    if size <= (reserved := len(reserved_pieces(size))):
        what = f"{size} pieces leave no room beside the {reserved} reserved ones"
        raise InputError(what, where="size", remedy="Use some thousands")
    stages.refuse_to_read(output, inputs)
    refuse_existing = partial(artifacts.refuse_existing, output, overwrite=overwrite)
    if not stages.is_sealed(output):
        refuse_existing()
    stretches = plan_stretches(inputs, reading)
    for line in describe_formats(stretches):
        progress.note(line)
    stage = stages.begin(
        output,
        stretches,
        settings={
            "kind": "vocab",
            "lowercase": lowercase,
            "without": sorted(reading.cleaning.without),
            **versions(),
        },
        sealing={"size": size},
        overwrite=overwrite,
    )
    if stages.is_sealed(output):  # it was killed between the last two steps
        stage.remove()
        return Tokenizer.load(output)
    make = partial(_count_part, cleaning=reading.cleaning, lowercase=lowercase)
    with stage.kept_if_of_use(progress):
        refuse_existing()  # what was sealed was something else
        words = 0
        with progress.bar("counting words", total=stage.bytes_to_read(stretches), unit="bytes") as bar:
            for record in stage.work_until_whole(
                stretches, make, workers=workers, bar=bar, progress=progress
            ):
                words += record["words"]
                bar.show(words=f"{words:,}")
        counts, cleaned = _add_up(stage.parts())
        for line in cleaned.in_words():
            progress.note(line)
        if not counts:
            stage.remove()
            raise InputError("no text in it", where=", ".join(map(str, inputs)))
        tokenizer = Tokenizer.from_pieces(
            learn_vocabulary(counts, size=size, progress=progress), lowercase=lowercase
        )
        with artifacts.write_directory(
            output,
            kind=KIND,
            overwrite=overwrite,
            room=stage.directory,
            when_sealed=stage.when_sealed,
        ) as directory:
            tokenizer.save(directory)
    stage.remove()
    return tokenizer


def versions() -> dict[str, str]:
    """Return the versions of what decides on the counts, beside the text and the settings."""
    return {name: metadata.version(name) for name in _PACKAGES}


def _count_part(
    documents: list[Document], path: Path, *, cleaning: CleaningConfig, lowercase: bool
) -> dict[str, Any]:
    """Count the words of one part, and write them with their counts."""
    cleaned, done = clean_all(documents, cleaning)
    counts = count_words((line for document in cleaned for line in document.lines), lowercase=lowercase)
    table = pa.table([list(counts.keys()), list(counts.values())], schema=_SCHEMA)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_table(table)
    return {"words": counts.total(), "cleaning": done.as_dict()}


def _add_up(parts: Sequence[Part]) -> tuple[dict[str, int], CleaningCounts]:
    """Add up the counts of all parts, in columns: a dictionary of them would be ten times as large."""
    done = CleaningCounts()
    tables = [_SCHEMA.empty_table()]
    rows, most = 0, _ROWS_AT_ONCE
    for part in parts:
        done += CleaningCounts.from_dict(part.record["cleaning"])
        tables.append(pa.ipc.open_file(pa.memory_map(str(part.path))).read_all())
        rows += len(tables[-1])
        if rows > most:
            tables = [_sum(tables)]
            rows = len(tables[0])
            most = max(_ROWS_AT_ONCE, 2 * rows)
    total = _sum(tables)
    return dict(zip(total["word"].to_pylist(), total["count"].to_pylist(), strict=True)), done


def _sum(tables: Sequence[Any]) -> Any:
    """Add up the counts of each word. Arrow's own grouping takes four times as long."""
    table = pa.concat_tables(tables)
    words = table["word"].combine_chunks().dictionary_encode()
    counts = np.bincount(words.indices.to_numpy(), table["count"].to_numpy(), len(words.dictionary))
    return pa.table([words.dictionary, pa.array(counts.astype(np.int64))], schema=_SCHEMA)
