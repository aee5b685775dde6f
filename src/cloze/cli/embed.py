"""`cloze embed`: write the vectors of texts or of their words."""

from dataclasses import asdict
from typing import Annotated, Literal

from cloze.cli import options
from cloze.errors import InputError


def run(
    input_file: options.InputPathOrUrl,
    /,
    *,
    model: options.VectorModel,
    output: options.OutputPathOrUrl,
    vectors: options.VectorFlags,
    tokens: options.Switch = False,
    idf_from: options.OptionalPathOrUrl = None,
    text_column: Annotated[str, options.Flag(metavar="NAME")] = "text",
    dtype: Literal["float32", "float16"] = "float32",
    pool: options.WorkerFlags = options.SINGLE_PROCESS,
    device: options.Device = "auto",
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Write the vectors of texts or of their words.

    Row i of the output belongs to line i of a text file or row i of a table.

    Args:
        input_file: Text file with a text per line, plain or compressed, or table; a path, a URL, or - for stdin.
        output: Path or URL ending in .npy (vectors only), .parquet or .jsonl (with the texts).
        tokens: Write a vector per word, with its line and characters, instead of one per text.
        idf_from: Text in which tokens are counted for idf_mean (default: the input).
        text_column: Column with the text, if the input is a table.
        dtype: Number format of the output.
    """
    from cloze.inference.embedding_files import EmbeddingFileConfig, embed_file
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    if tokens and vectors.pooling != "stored":
        raise InputError("pools a text into one vector, --tokens writes words", where="--pooling")
    if idf_from is not None and vectors.pooling != "idf_mean":
        raise InputError("needs --pooling idf_mean", where="--idf-from")
    file = EmbeddingFileConfig(
        of="words" if tokens else "texts",
        text_column=text_column,
        idf_source=idf_from,
        storage=dtype,
        workers=pool.resolve(),
        device=device,
    )
    summary = embed_file(
        model, input_file, output, vectors.config, file, overwrite=overwrite, progress=flags.progress
    )
    lines = [
        f"wrote {output}: {summary.vectors:,} vectors of size {summary.width} for {summary.texts:,} texts"
    ]
    if summary.truncated:
        lines.append(
            f"{summary.truncated:,} texts were longer than --max-seq-length and truncated: see --long-texts"
        )
    if summary.empty:
        lines.append(f"{summary.empty:,} texts are empty")
    flags.print(asdict(summary) | {"output": str(output)}, "\n".join(lines))
