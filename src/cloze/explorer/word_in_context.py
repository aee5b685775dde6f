"""Compare the vectors of one word in several sentences, layer by layer.

Shapes: L layers of the encoder, K occurrences of the word, D hidden.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from cloze.errors import InputError
from cloze.explorer.encoder_internals import batch_of, encode_untruncated
from cloze.models.encoder import Encoder
from cloze.tasks.arrays import normalize
from cloze.tokenization.tokenizer import Tokenizer

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The word in a sentence: characters `start` to `end` (exclusive)."""

    sentence: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WordInContext:
    """The vectors of a word at all its occurrences, each the mean of its tokens' vectors."""

    occurrences: tuple[Occurrence, ...]
    vectors: Floats
    """[L + 1, K, D]: rows of the word-embedding table, which are all equal, then every layer."""

    def cosines(self) -> Floats:
        """Return the cosine similarity of the occurrences in each layer, [L + 1, K, K]."""
        units = normalize(self.vectors)
        cosines: Floats = units @ units.swapaxes(1, 2)
        return cosines

    def project_to_plane(self) -> tuple[Floats, Floats]:
        """Return the first two principal components of the occurrences in each layer, and their share of the variance.

        Principal components are defined up to rotation and reflection, so the plane of each layer is aligned with
        that of the next one: points can be followed across layers.

        Shapes:
            points [L + 1, K, 2]; shares of the variance [L + 1], 0 where all occurrences are equal.
        """
        centered = self.vectors - self.vectors.mean(1, keepdims=True)
        left, singular, _ = np.linalg.svd(centered, full_matrices=False)
        points = np.zeros((*self.vectors.shape[:2], 2), np.float32)
        axes = min(2, singular.shape[1])
        points[..., :axes] = left[..., :axes] * singular[:, None, :axes]
        variance = singular**2
        total = variance.sum(-1)
        is_constant = total <= 1e-9 * (self.vectors**2).sum((1, 2))
        points[is_constant] = 0
        shares = np.where(is_constant, 0, variance[:, :axes].sum(-1) / np.maximum(total, 1e-30))
        for layer in range(len(points) - 2, -1, -1):
            rotation_left, _, rotation_right = np.linalg.svd(points[layer].T @ points[layer + 1])
            points[layer] = points[layer] @ rotation_left @ rotation_right
        return points, shares.astype(np.float32)


@torch.inference_mode()
def word_in_context(
    model: Encoder,
    tokenizer: Tokenizer,
    word: str,
    sentences: Sequence[str],
    *,
    max_occurrences: int | None = None,
) -> WordInContext:
    """Find a word in sentences, and return its vectors.

    Args:
        word: found where its tokens are a whole word; case matters if the tokenizer keeps it.
    """
    word_ids = tokenizer.encode(word).input_ids[1:-1]
    if not word_ids:
        raise InputError("the word is empty", where="word")
    encodings = [encode_untruncated(model, tokenizer, sentence)[0] for sentence in sentences]
    count, continues = len(word_ids), tokenizer.is_continuation
    starts = [
        (number, start)
        for number, encoding in enumerate(encodings)
        for start in range(1, len(encoding) - count)
        if encoding.input_ids[start : start + count] == word_ids
        and not continues[encoding.input_ids[start]]
        and not continues[encoding.input_ids[start + count]]  # or a longer word starts with them
    ]
    if not starts:
        raise InputError(f"no sentence contains the word {word!r}", where="word")
    if max_occurrences is not None and len(starts) > max_occurrences:
        what = f"{word!r} occurs {len(starts):,} times, at most {max_occurrences} are compared"
        raise InputError(what, where="sentences", remedy="Give fewer")
    batch = batch_of(model, *encodings)
    rows_TD = model.embeddings.word_embeddings(batch.input_ids)
    layers = model(batch, output_hidden_states=True).hidden_states[1:]
    sentence_starts = batch.cu_seqlens.cpu().tolist()
    spans = [
        slice(sentence_starts[number] + start, sentence_starts[number] + start + count)
        for number, start in starts
    ]
    vectors = [
        torch.stack([hidden_TD[span].float().mean(0) for span in spans]) for hidden_TD in (rows_TD, *layers)
    ]
    occurrences = []
    for number, start in starts:
        offsets = encodings[number].offsets[start : start + count]
        occurrences.append(Occurrence(number, offsets[0][0], offsets[-1][1]))
    return WordInContext(tuple(occurrences), torch.stack(vectors).cpu().numpy())
