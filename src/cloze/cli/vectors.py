"""Flags of the verbs that make vectors: which ones."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro

from cloze.cli.common import OptionalInteger, OptionalName
from cloze.errors import InputError

if TYPE_CHECKING:  # it imports what --help can do without
    from cloze.inference.embed import EmbeddingConfig


@dataclass(frozen=True)
class Vectors:
    """Which vectors are made of the encoder's."""

    pooling: Literal["stored", "cls", "mean", "max", "mean_sqrt_len", "idf_mean"] = "stored"
    """How token vectors become one; stored is what the directory says, else mean."""
    layers: Annotated[str, tyro.conf.arg(aliases=["--layer"], metavar="LAYERS")] = "-1"
    """As in 12, -2, 1,6 or -4:-1; 0 is the table of word embeddings."""
    combine: Literal["sum", "concat"] = "sum"
    """What is done with several layers."""
    normalize: bool = False
    """Bring vectors to length 1, as is done anyway where the directory says so."""
    no_normalize: bool = False
    """Leave vectors their length, whatever the directory says."""
    max_seq_length: OptionalInteger = None
    """Tokens of a text that are read; longer texts are cut."""
    prompt: OptionalName = None
    """A prompt of the directory, put before each text."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products."""

    @property
    def config(self) -> "EmbeddingConfig":
        """The same, as the library takes it."""
        from cloze.inference.embed import EmbeddingConfig

        if self.normalize and self.no_normalize:
            raise InputError("says the opposite of --normalize", where="--no-normalize")
        return EmbeddingConfig(
            pooling=None if self.pooling == "stored" else self.pooling,
            layers=parse_layers(self.layers),
            combine=self.combine,
            normalize=True if self.normalize else False if self.no_normalize else None,
            max_seq_length=self.max_seq_length,
            prompt=self.prompt,
            precision=self.precision,
        )


VectorFlags: TypeAlias = Annotated[Vectors, tyro.conf.arg(name="")]


def parse_layers(text: str) -> tuple[int, ...]:
    """Read numbers of layers; a range has both its ends, counted from the same side.

    >>> parse_layers("0,-4:-2")
    (0, -4, -3, -2)

    Raises:
        InputError: it is something else.
    """
    layers: list[int] = []
    try:
        for part in text.split(","):
            first, colon, last = part.partition(":")
            found = range(int(first), int(last if colon else first) + 1)
            if not found:
                raise ValueError(part)
            layers += found
    except ValueError:
        remedy = "Write them as in 12, -2, 1,6 or -4:-1"
        raise InputError(f"{text!r} names no layers", where="--layers", remedy=remedy) from None
    return tuple(layers)
