"""`cloze neighbours`: what is nearest among vectors, or in a model's table of words."""

from dataclasses import asdict, replace
from typing import Annotated

import tyro

from cloze.cli.common import Device, Flags, Model, OptionalPath, OptionalPlace
from cloze.cli.vectors import VectorFlags, Vectors
from cloze.errors import InputError

_Texts = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="TEXT", help_behavior_hint="")
]


def run(
    query: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT")],
    /,
    *,
    model: Model,
    among: OptionalPath = None,
    texts: OptionalPath = None,
    text_column: Annotated[str, tyro.conf.arg(metavar="NAME")] = "text",
    idf_from: OptionalPlace = None,
    plus: _Texts = (),
    minus: _Texts = (),
    top_k: Annotated[int, tyro.conf.arg(aliases=["-k"])] = 10,
    vectors: VectorFlags,
    device: Device = "auto",
    flags: Flags,
) -> None:
    """Find what is nearest to a text by the cosine of their vectors; every row is looked at.

    Args:
        query: a text, or a word.
        model: what the vectors were made with.
        among: an .npy or .parquet of cloze embed; without one, the model's table of word embeddings.
        texts: beside an .npy, the file that was embedded.
        text_column: name of the column with the text, where that file is a table.
        idf_from: as of cloze embed, where the vectors are those of idf_mean.
        plus: a text whose vector is added; may be given several times.
        minus: a text whose vector is taken away; may be given several times.
        top_k: how many.
        vectors: which vectors, as for cloze embed.
        device: cpu, cuda, mps or auto.
        flags: flags of every verb.
    """
    from cloze.inference.embed import Embedder
    from cloze.inference.neighbours import VectorFile, neighbours_in_file, neighbours_in_table

    if top_k < 1:
        raise InputError(f"{top_k} is less than 1", where="--top-k")
    if among is None:
        for given, flag in ((texts, "--texts"), (idf_from, "--idf-from")):
            if given is not None:
                raise InputError("goes with --among, a file of vectors", where=flag)
        if vectors != Vectors():
            what = "pieces of the vocabulary are compared as they stand in the table of embeddings"
            raise InputError(what, where="flags of vectors", remedy="Leave them out, or give --among")
        embedder = Embedder.load(model, replace(vectors.config, layers=(0,)), device=device)
        found = neighbours_in_table(embedder, query, plus=plus, minus=minus, top_k=top_k)
    else:
        if idf_from is not None and vectors.pooling != "idf_mean":
            raise InputError("is read for --pooling idf_mean alone", where="--idf-from")
        file = VectorFile(among, texts, text_column)
        if file.is_of_words and vectors.pooling != "stored":
            what = "the file holds vectors of words, which are means of their pieces'"
            raise InputError(what, where="--pooling", remedy="Leave it out")
        embedder = Embedder.load(model, vectors.config, device=device)
        found = neighbours_in_file(
            embedder, file, query, plus=plus, minus=minus, top_k=top_k, idf_source=idf_from
        )
    lines = [f"{each.cosine:6.3f}  {each.text}" for each in found]
    flags.print([asdict(each) for each in found], "\n".join(lines))
