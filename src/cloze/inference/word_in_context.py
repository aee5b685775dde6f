"""One word in several sentences, layer by layer: a row of the lookup table that becomes as many vectors as meanings.

Shapes: L layers and the table before them, K occurrences, D hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from cloze.errors import InputError
from cloze.inference.loading import encode_whole
from cloze.model.bert import BertModel
from cloze.model.packed import Packed
from cloze.text.tokenizer import Encoding, Tokenizer

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word in a sentence: characters `start` to `end`."""

    sentence: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WordInContext:
    """The vectors of a word, the mean of its pieces', wherever it stands."""

    occurrences: tuple[Occurrence, ...]
    vectors: Floats
    """[L + 1, K, D]: rows of the word-embedding table first, which are all the same, then of every layer."""

    def cosines(self) -> Floats:
        """Return how alike the occurrences are in each layer, [L + 1, K, K]."""
        lengths = np.linalg.norm(self.vectors, axis=-1, keepdims=True)
        units = self.vectors / np.maximum(lengths, 1e-12)
        cosines: Floats = units @ units.swapaxes(1, 2)
        return cosines

    def plane(self) -> tuple[Floats, Floats]:
        """Return the occurrences in the two directions in which they differ most, and how much that shows.

        Every layer has directions of its own. A plane may be turned and mirrored without saying anything else, so
        that of each layer is turned to lie as the next one's does, and the eye can follow a point.

        Shapes:
            points [L + 1, K, 2]; shares of the variance [L + 1], 0 where nothing differs.
        """
        centred = self.vectors - self.vectors.mean(1, keepdims=True)
        left, singular, _ = np.linalg.svd(centred, full_matrices=False)
        points = np.zeros((*self.vectors.shape[:2], 2), np.float32)
        axes = min(2, singular.shape[1])
        points[..., :axes] = left[..., :axes] * singular[:, None, :axes]
        variance = singular**2
        total = variance.sum(-1)
        nothing = total <= 1e-9 * (self.vectors**2).sum((1, 2))
        points[nothing] = 0
        shares = np.where(nothing, 0, variance[:, :axes].sum(-1) / np.maximum(total, 1e-30))
        for layer in range(len(points) - 2, -1, -1):
            rotation_left, _, rotation_right = np.linalg.svd(points[layer].T @ points[layer + 1])
            points[layer] = points[layer] @ rotation_left @ rotation_right
        return points, shares.astype(np.float32)


@torch.inference_mode()
def word_in_context(
    model: BertModel, tokenizer: Tokenizer, word: str, sentences: Sequence[str], *, most: int | None = None
) -> WordInContext:
    """Find a word in sentences, and its vectors.

    Args:
        model: the encoder.
        tokenizer: its own.
        word: found where its pieces stand as a whole word, in the case that the tokenizer keeps.
        sentences: any number.
        most: how often the word may stand in them; None sets no limit.

    Raises:
        InputError: the word is empty, in none of the sentences or too often in them, or a sentence has more tokens
            than the model takes.
    """
    pieces = tokenizer.encode(word).input_ids[1:-1]
    if not pieces:
        raise InputError("the word is empty", where="word")
    encodings = [encode_whole(model.config, tokenizer, sentence) for sentence in sentences]
    found = [
        (number, first)
        for number, encoding in enumerate(encodings)
        for first in _whole_words(encoding, pieces, tokenizer)
    ]
    if not found:
        raise InputError(f"no sentence has the word {word!r}", where="word")
    if most is not None and len(found) > most:
        what = f"{word!r} stands there {len(found):,} times, {most} at most are compared"
        raise InputError(what, where="sentences", remedy="Give fewer")
    device = next(model.parameters()).device
    packed = Packed.from_sequences(
        [encoding.input_ids for encoding in encodings], [encoding.token_type_ids for encoding in encodings]
    ).to(device)
    rows_TD = model.embeddings.word_embeddings(packed.input_ids)
    layers = model.forward_packed(packed, keep_hidden_states=True).hidden_states[1:]
    starts = packed.cu_seqlens.cpu().tolist()
    spans = [(starts[number] + first, starts[number] + first + len(pieces)) for number, first in found]
    vectors = [
        torch.stack([hidden_TD[start:end].float().mean(0) for start, end in spans])
        for hidden_TD in (rows_TD, *layers)
    ]
    occurrences = tuple(
        Occurrence(
            number,
            encodings[number].offsets[first][0],
            encodings[number].offsets[first + len(pieces) - 1][1],
        )
        for number, first in found
    )
    return WordInContext(occurrences, torch.stack(vectors).cpu().numpy())


def _whole_words(encoding: Encoding, pieces: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Return where the pieces begin in an encoding; a word that goes on after them is another word."""
    ids, count = encoding.input_ids, len(pieces)
    return [
        first
        for first in range(1, len(ids) - count)
        if ids[first : first + count] == list(pieces)
        and not tokenizer.is_continuation[ids[first + count]]
        and not tokenizer.is_continuation[ids[first]]
    ]
