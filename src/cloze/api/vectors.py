"""Write the vectors of texts or words to a file, find the nearest, and search text files."""

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from cloze.errors import InputError
from cloze.options import (
    CleanedText,
    Device,
    Encoding,
    ModelPrecision,
    Overwrite,
    ShowProgress,
    VectorOptions,
)
from cloze.parallel_map import AnyWorkers, resolve_workers
from cloze.progress import resolve_progress
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.inference.embedding_files import EmbeddingFileSummary
    from cloze.inference.neighbors import Neighbor
    from cloze.inference.search import Hit


@checks_arguments()
def embed_file(
    input_file: str | Path,
    *,
    model: str | Path,
    output: str | Path,
    tokens: bool = False,
    text_column: str = "text",
    encoding: Encoding = None,
    clean: CleanedText = None,
    workers: AnyWorkers = 1,
    device: Device = "auto",
    precision: ModelPrecision = None,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
    **options: Unpack[VectorOptions],
) -> "EmbeddingFileSummary":
    """Write the vectors of texts or of their words, in bounded memory.

    Row i of an .npy file belongs to line i of a text file or row i of a table, and an empty line is refused. In the
    other formats a row has the number of its line, and empty lines are left out.

    Args:
        input_file: text file with a text per line, plain or compressed, or table; a path, a URL, or - for stdin.
        model: cloze-mini-sentences, a checkpoint, a run (its best checkpoint), or hf://org/name.
        output: path or URL ending in .npy (vectors only), .parquet or .jsonl (with lines and texts).
        tokens: write a vector per word, with its line and characters, instead of one per text.
        text_column: column with the text, if the input is a table.
    """
    from functools import partial

    from cloze.inference.embedder import Embedder
    from cloze.inference.embedding_files import write_vectors
    from cloze.remote_files import to_path_or_url

    if tokens and options["pooling"] is not None:
        raise InputError("pools a text into one vector, `tokens` writes words", where="pooling")
    load = partial(Embedder.load, model, precision=precision, **options)
    return write_vectors(
        load,
        to_path_or_url(input_file, "input_file"),
        to_path_or_url(output, "output"),
        of="words" if tokens else "texts",
        text_column=text_column,
        encoding=encoding,
        clean=clean,
        workers=resolve_workers(workers),
        device=device,
        overwrite=overwrite,
        progress=resolve_progress(progress),
    )


@checks_arguments()
def neighbors(
    query: str,
    *,
    model: str | Path,
    among: str | Path | None = None,
    top_k: int = 10,
    device: Device = "auto",
    precision: ModelPrecision = None,
    **options: Unpack[VectorOptions],
) -> "list[Neighbor]":
    """Find the texts nearest to a query, or the tokens, by exact cosine similarity.

    >>> import cloze
    >>> [nearest] = cloze.neighbors("night", model="cloze-mini", top_k=1)
    >>> nearest.text
    'morning'

    Args:
        query: text or word; - reads it from stdin, a single line.
        model: cloze-mini-sentences, a checkpoint, a run (its best checkpoint), or hf://org/name.
        among: .parquet file of texts of cloze embed (default: the model's word embeddings).
        top_k: number of results.
    """
    from cloze.arguments import check_integer
    from cloze.data.reading.files import read_line_of_stdin
    from cloze.inference.embedder import Embedder
    from cloze.inference.neighbors import neighbors_in_file, neighbors_in_table

    count = check_integer(top_k, "top_k")
    query = read_line_of_stdin(query, "query")
    if among is None:
        defaults = {"layers": "-1", "combine": "sum", "long_texts": "truncate"}
        for name, value in {"precision": precision, **options}.items():
            if value != defaults.get(name):
                what = "does not apply to word embeddings"
                raise InputError(what, where=name, remedy="Leave it out, or give `among`")
        embedder = Embedder.load(model, device=device, layers=(0,))
        return neighbors_in_table(embedder, query, top_k=count)
    embedder = Embedder.load(model, device=device, precision=precision, **options)
    return neighbors_in_file(embedder, Path(among), query, top_k=count)


@checks_arguments()
def search(
    documents: str | Path,
    question: str,
    *,
    model: str | Path = "cloze-mini-sentences",
    reranker: str | Path | None = None,
    top_k: int = 10,
    encoding: Encoding = None,
    device: Device = "auto",
    precision: ModelPrecision = None,
    progress: ShowProgress = False,
) -> "list[Hit]":
    """Find the passages of a folder's text files that are nearest to a question, by exact cosine similarity.

    A passage is a paragraph, or as much of it as the model reads. Vectors are kept in the folder, in .cloze-search:
    the next search embeds new and changed files only.

    Args:
        documents: folder, whose hidden files are left out, or text file, plain or compressed.
        question: text; - reads it from stdin, a single line.
        model: cloze-mini-sentences, a checkpoint, a run (its best checkpoint), or hf://org/name.
        reranker: model of cloze finetune ranking or cross-encoder that scores the nearest 50 passages again.
        top_k: number of results.
    """
    from cloze.arguments import check_integer
    from cloze.data.reading.files import read_line_of_stdin
    from cloze.inference.embedder import Embedder
    from cloze.inference.search import PassageIndex
    from cloze.inference.text_predictors import TextRanker

    count = check_integer(top_k, "top_k")
    question = read_line_of_stdin(question, "question")
    ranker = None if reranker is None else TextRanker.load(reranker, device=device, precision=precision)
    embedder = Embedder.load(model, device=device, precision=precision)
    index = PassageIndex.open(embedder, documents, encoding=encoding, progress=resolve_progress(progress))
    return index.search(question, top_k=count, ranker=ranker)
