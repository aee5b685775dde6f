"""`cloze neighbors`: find the nearest texts or words by their vectors."""

from dataclasses import asdict
from typing import Annotated

from cloze.cli import options
from cloze.errors import InputError

_Texts = Annotated[options.Repeated, options.Flag(metavar="TEXT")]


def run(
    query: Annotated[str, options.Flag(metavar="TEXT")],
    /,
    *,
    model: options.VectorModel,
    among: options.OptionalPath = None,
    texts: options.OptionalPath = None,
    text_column: Annotated[str, options.Flag(metavar="NAME")] = "text",
    idf_from: options.OptionalPathOrUrl = None,
    plus: _Texts = (),
    minus: _Texts = (),
    top_k: Annotated[int, options.Flag(aliases=["-k"])] = 10,
    vectors: options.VectorFlags,
    device: options.Device = "auto",
    flags: options.Flags,
) -> None:
    """Find the texts or words nearest to a query by exact cosine similarity.

    Args:
        query: Text or word.
        among: .npy or .parquet file of cloze embed (default: the model's word embeddings).
        texts: Embedded text file of an .npy file.
        text_column: Column with the text, if the text file is a table.
        idf_from: Text in which tokens are counted for idf_mean, as for cloze embed.
        plus: Text whose vector is added; may be repeated.
        minus: Text whose vector is subtracted; may be repeated.
        top_k: Number of results.
    """
    from cloze.inference.embedder import Embedder
    from cloze.inference.neighbors import VectorFile, neighbors_in_file, neighbors_in_table

    if top_k < 1:
        raise InputError(f"{top_k} is less than 1", where="--top-k")
    if among is None:
        for value, flag in ((texts, "--texts"), (idf_from, "--idf-from")):
            if value is not None:
                raise InputError("needs --among, a file of vectors", where=flag)
        if vectors != options.VectorOptions():
            what = "flags of vectors do not apply to word embeddings"
            raise InputError(what, remedy="Leave them out, or give --among")
        embedder = Embedder.load(model, device=device, layers=(0,))
        neighbors = neighbors_in_table(embedder, query, plus=plus, minus=minus, top_k=top_k)
    else:
        if idf_from is not None and vectors.pooling != "idf_mean":
            raise InputError("needs --pooling idf_mean", where="--idf-from")
        file = VectorFile(among, texts, text_column)
        if file.is_of_words and vectors.pooling != "stored":
            what = "the file holds vectors of words, each the mean of its tokens"
            raise InputError(what, where="--pooling", remedy="Leave it out")
        embedder = Embedder.load(model, device=device, **vectors.config)
        neighbors = neighbors_in_file(
            embedder, file, query, plus=plus, minus=minus, top_k=top_k, idf_source=idf_from
        )
    lines = [f"{neighbor.cosine:6.3f}  {neighbor.text}" for neighbor in neighbors]
    flags.print([asdict(neighbor) for neighbor in neighbors], "\n".join(lines))
