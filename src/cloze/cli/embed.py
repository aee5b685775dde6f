"""`cloze embed`: vectors of texts or of their words."""

from dataclasses import asdict
from typing import Annotated, Literal

import tyro

from cloze.cli.common import (
    IN_THIS_PROCESS,
    Device,
    Flags,
    InputPlace,
    Model,
    OptionalPlace,
    OutputPlace,
    PoolFlags,
)
from cloze.cli.vectors import VectorFlags
from cloze.errors import InputError


def run(
    input_file: InputPlace,
    /,
    *,
    model: Model,
    output: OutputPlace,
    vectors: VectorFlags,
    tokens: bool = False,
    idf_from: OptionalPlace = None,
    text_column: Annotated[str, tyro.conf.arg(metavar="NAME")] = "text",
    dtype: Literal["float32", "float16"] = "float32",
    pool: PoolFlags = IN_THIS_PROCESS,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Write the vectors of texts, or of their words: row i of the output is line i of a text, or row i of a table.

    Args:
        input_file: text, a text a line, plain or compressed; a table; or - for stdin. A file or a URL such as
            s3://bucket/texts.txt.
        model: cloze-mini, a checkpoint or a run; what sentence-transformers wrote in it is followed.
        output: a file or a URL whose name ends in .npy (vectors alone), .parquet or .jsonl (with the texts).
        vectors: which vectors.
        tokens: a vector a word, with its line and characters, instead of one a text.
        idf_from: a text in which pieces are counted for idf_mean; without one, the input itself.
        text_column: name of the column with the text, where the input is a table.
        dtype: number format of the output.
        pool: where the work is done.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.inference.embedding_files import FileConfig, embed_file

    if tokens and vectors.pooling != "stored":
        raise InputError("makes one vector of a text, --tokens one of each word", where="--pooling")
    if idf_from is not None and vectors.pooling != "idf_mean":
        raise InputError("is read for --pooling idf_mean alone", where="--idf-from")
    file = FileConfig(
        of="words" if tokens else "texts",
        text_column=text_column,
        idf_source=idf_from,
        storage=dtype,
        workers=pool(),
        device=device,
    )
    found = embed_file(
        model, input_file, output, vectors.config, file, overwrite=overwrite, progress=flags.progress
    )
    notes = [f"{found.vectors:,} vectors of {found.width} numbers, of {found.texts:,} texts: {output}"]
    if found.truncated:
        notes.append(f"{found.truncated:,} texts are longer than what is read of one (--max-seq-length): cut")
    if found.empty:
        notes.append(f"{found.empty:,} texts are empty")
    flags.print(asdict(found) | {"output": str(output)}, "\n".join(notes))
