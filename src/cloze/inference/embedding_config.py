"""Which vectors an embedder returns."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cloze.choices import InferencePrecision, LongTexts
from cloze.config import check_types
from cloze.errors import InputError
from cloze.models.pooling import POOLINGS, Pooling
from cloze.models.sentence_transformers import SentenceEncoderConfig

EmbeddingPooling: TypeAlias = Pooling | Literal["idf_mean"]
"""How token vectors become one; `idf_mean` weights each token by its inverse document frequency."""
Combine: TypeAlias = Literal["sum", "concat"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingConfig:
    """Which vectors an `Embedder` returns. None follows the files of sentence-transformers in the checkpoint."""

    pooling: EmbeddingPooling | None = None
    """How the vectors of all tokens, [CLS] and [SEP] included, become one; by default the mean."""
    layers: tuple[int, ...] = (-1,)
    """Layers, 1 being the first and -1 the last; 0 is the rows of the word-embedding table, without position or
    context."""
    combine: Combine = "sum"
    """How several layers are combined, token by token."""
    normalize: bool | None = None
    """Whether vectors are scaled to length 1; by default they are not."""
    max_seq_length: int | None = None
    """Maximum number of tokens of a text; by default the positions of the model."""
    long_texts: LongTexts = "truncate"
    """Truncate a longer text, or read it in windows that overlap by half and take the mean of their vectors."""
    prompt: str | None = None
    """Name of a prompt of the checkpoint that is prepended to each text."""
    precision: InferencePrecision | None = None
    """Number format of matrix products; by default float32, or int8 for the directory of an int8 model."""

    def __post_init__(self) -> None:
        choices = (*POOLINGS, "idf_mean")
        if isinstance(self.pooling, str) and self.pooling not in choices:
            remedy = f"Choose from {', '.join(choices)}"
            raise InputError(f"no pooling {self.pooling!r}", where="pooling", remedy=remedy)
        check_types(self)


def resolve_layers(layers: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """Return non-negative numbers of layers.

    Raises:
        InputError: a layer does not exist or is repeated, or `layers` is empty.
    """
    for layer in layers:
        if not -num_layers <= layer <= num_layers:
            what = f"no layer {layer}: there are 1 to {num_layers}, and -1 to -{num_layers} from the last"
            raise InputError(what, where="layers", remedy="0 is the table of word embeddings")
    resolved = tuple(layer if layer >= 0 else num_layers + 1 + layer for layer in layers)
    if not resolved or len(set(resolved)) < len(resolved):
        what = "a layer is repeated" if resolved else "no layer is given"
        raise InputError(what, where="layers")
    return resolved


def resolve_length(config: EmbeddingConfig, stored: SentenceEncoderConfig, positions: int) -> int:
    """Return the most tokens of a text.

    Raises:
        InputError: the model has fewer positions.
    """
    length = config.max_seq_length or stored.max_seq_length or positions
    if config.max_seq_length is not None and not 3 <= config.max_seq_length <= positions:
        what = f"{config.max_seq_length} is not in 3..{positions}, the positions of the model"
        raise InputError(what, where="max_seq_length")
    return min(length, positions)
