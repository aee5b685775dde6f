"""The numbers of the explorer page's views, ready for JSON: attention, one head, the layers, answers without heads."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cloze.data.batch import MaskedBatch, PackedBatch, collate
from cloze.errors import InputError
from cloze.explorer.encoder_internals import (
    EMBEDDINGS,
    TokenTrace,
    all_hidden_states,
    attention_map,
    attention_row,
    heads_off,
    input_embeddings,
    masked_lm_logits,
    movements,
    rounded,
    to_base64,
    trace_masked_lm,
    trace_token,
)
from cloze.explorer.text_window import TextWindow
from cloze.explorer.word_in_context import word_in_context
from cloze.inference.pretrained_heads import IS_NEXT, Candidate, FillMask, NextSentence, top_candidates
from cloze.serving.queue import Queue
from cloze.serving.served_model import ServedModel
from cloze.tasks.arrays import log_of_sum, softmax
from cloze.tasks.texts import LabeledText

MAX_OCCURRENCES = 64
"""Of a word; the response grows with their square."""
_FIRST_DIMENSIONS = 8
_TOP_K = 5
_INPUTS = (*EMBEDDINGS, "normalized")


def attention(served: ServedModel, window: TextWindow) -> dict[str, Any]:
    """Return the attention weights of every head."""
    layers = attention_map(served.model.encoder, served.tokenizer, window.text, window.pair).layers
    return {
        **_tokens(served, window),
        **_size(served),
        "weights": to_base64(torch.stack([layer.weights for layer in layers])),
    }


def embeddings(served: ServedModel, window: TextWindow) -> dict[str, Any]:
    """Return the tokens and their input embeddings: the lengths, and the first numbers."""
    embeddings = input_embeddings(served.model.encoder, window.encoding)
    return {
        **_tokens(served, window),
        "input_ids": window.encoding.input_ids,
        "embeddings": {
            name: {
                "norms": rounded(embeddings[name].norm(dim=-1)),
                "first": rounded(embeddings[name][:, :_FIRST_DIMENSIONS]),
            }
            for name in _INPUTS
        },
    }


def head(served: ServedModel, window: TextWindow, *, layer: int, head: int, token: int) -> dict[str, Any]:
    """Return one head's computation for one token."""
    attention = attention_map(served.model.encoder, served.tokenizer, window.text, window.pair)
    for name, number, count in (
        ("layer", layer, len(attention.layers)),
        ("head", head, len(attention.layers[0].query)),
        ("token", token, len(attention.tokens)),
    ):
        if number >= count:
            raise InputError(f"{number} is not in 0..{count - 1}", where=name)
    row = attention_row(attention.layers[layer], head=head, token=token)
    return {name: rounded(values) for name, values in row.items()}


def layers(served: ServedModel, window: TextWindow, *, token: int | None) -> dict[str, Any]:
    """Return one token's vectors at every step, its attention, and what the heads of pre-training read from them."""
    shown = served.model.encoder, served.tokenizer, window.text, window.pair
    attention, trace = attention_map(*shown), trace_token(*shown, token=token)
    embeddings = input_embeddings(served.model.encoder, window.encoding)
    return {
        **_tokens(served, window),
        "token": trace.token,
        "token_id": window.encoding.input_ids[trace.token],
        "heads": served.model.config.num_attention_heads,
        "input": {name: _vector(embeddings[name][trace.token]) for name in _INPUTS},
        "layers": [
            {
                "steps": {
                    **{
                        name: _vector(getattr(layer_attention, name)[:, trace.token].flatten())
                        for name in ("query", "key", "value")
                    },
                    **{step: _vector(vector) for step, vector in steps.items()},
                },
                "scores": rounded(layer_attention.scores[:, trace.token]),
                "weights": rounded(layer_attention.weights[:, trace.token]),
                "movements": rounded(movements_T),
            }
            for steps, layer_attention, movements_T in zip(
                trace.layers, attention.layers, trace.movements, strict=True
            )
        ],
        "masked_lm": None if served.fill_mask is None else _masked_lm(served.fill_mask, trace),
        "pooler": None if served.next_sentence is None else _pooler(served.next_sentence, trace),
    }


async def model_map(served: ServedModel, window: TextWindow, *, queue: Queue) -> dict[str, Any]:
    """Return, after each layer, how far each token's vector turned, and the token that the MLM head reads from it.

    `lens` has the embeddings first, and is None without such a head.
    """
    ids, fill_mask, lens = window.encoding.input_ids, served.fill_mask, None
    hidden_LTD = await queue.run(
        lambda: all_hidden_states(served.model.encoder, window.encoding), tokens=len(ids)
    )

    def read(layers: list[Tensor]) -> list[list[Candidate]]:
        logits = (masked_lm_logits(fill_mask, hidden_TD).numpy() for hidden_TD in layers)
        return [
            [best for (best,) in top_candidates(of, served.tokenizer.tokens.__getitem__, 1)] for of in logits
        ]

    if fill_mask is not None:
        (lens,) = await queue.compute(read, [list(hidden_LTD)], len)
    return {
        **_tokens(served, window),
        **_size(served),
        "masked": [place for place, token_id in enumerate(ids) if token_id == served.tokenizer.mask_id],
        "movements": rounded(movements(hidden_LTD)),
        "lens": lens,
    }


async def ablation(
    served: ServedModel, window: TextWindow, *, token: int | None, heads: Any, queue: Queue
) -> dict[str, Any]:
    """Return the answers of a model with `all` attention heads, and those `without` some, or without each alone.

    An answer has the candidates for each masked token, the probability of the candidate that is `first` with all
    heads, the probability that the pair follows, and the probability of each label; None without such a head.
    """
    read, tokens = partial(_Ablation.of, served, window, token), len(window.encoding)
    ablated = await queue.run(read, tokens=tokens, thread="texts")
    each_alone = [[head] for head in product(*map(range, _size(served).values()))]
    off = each_alone if heads is None else [heads]
    ((everything, *without),) = await queue.compute(
        ablated.answers, [[[], *off]], lambda _: ablated.num_tokens, changes_model=True
    )
    return {
        **_tokens(served, window),
        **_size(served),
        "masked": ablated.masked,
        "all": everything,
        "without": without,
        "is_truncated": any(feature.is_truncated for feature in ablated.features),
    }


@dataclass(frozen=True)
class _Ablation:
    """The inputs of the heads that answer."""

    served: ServedModel
    window: TextWindow
    ids: list[int]
    features: list[Any]
    """The windows of the text that a fine-tuned model reads."""

    @classmethod
    def of(cls, served: ServedModel, window: TextWindow, token: int | None) -> "_Ablation":
        """Read a text; without [MASK], `token` is masked, or else the one in the middle."""
        tokenizer = served.tokenizer
        ids, predicts = list(window.encoding.input_ids), "predict" in served.abilities
        if served.fill_mask is not None and tokenizer.mask_id not in ids:
            words = [place for place, text in enumerate(window.encoding.sequence_ids) if text is not None]
            token = words[len(words) // 2] if token is None and words else token
            if token not in words:
                raise InputError(f"{token} is no token of the text", where="token")
            ids[token] = tokenizer.mask_id
        example = LabeledText(window.text, window.pair)
        return cls(served, window, ids, served.predictor.features(example) if predicts else [])

    @property
    def masked(self) -> list[int]:
        mask_id = self.served.tokenizer.mask_id
        return [place for place, token_id in enumerate(self.ids) if token_id == mask_id]

    @property
    def num_tokens(self) -> int:
        """Tokens that a model computes for an answer."""
        lengths: list[int] = [feature.num_tokens for feature in self.features]
        return sum(lengths) + len(self.ids) * ((self.served.fill_mask is not None) + self._has_pair)

    @property
    def _has_pair(self) -> bool:
        return self.served.next_sentence is not None and self.window.pair is not None

    def answers(self, off: list[Any]) -> list[dict[str, Any]]:
        """Return the answer without each collection of heads, from copies of the text in batches."""
        longest = max([len(self.ids), *(feature.num_tokens for feature in self.features)])
        size = max(1, self.served.engine.batch_tokens // longest - 1)
        batches = (off[start : start + size] for start in range(0, len(off), size))
        return [answer for batch in batches for answer in self._batch(batch)]

    def _batch(self, off: list[Any]) -> list[dict[str, Any]]:
        count, served = 1 + len(off), self.served
        with heads_off(served.model.encoder, [], *off):  # the first copy has all heads
            rows = zip(
                *(self._fill(count) if served.fill_mask is not None else [[None] * count] * 2),
                self._follow(count) if self._has_pair else [None] * count,
                self._label(count) if self.features else [None] * count,
                strict=True,
            )
        return [dict(zip(("masks", "first", "is_next", "labels"), row, strict=True)) for row in rows][1:]

    def _collate(self, ids: list[int], count: int) -> PackedBatch:
        return collate([ids] * count, [self.window.encoding.token_type_ids] * count)

    def _fill(self, count: int) -> tuple[list[Any], list[Any]]:
        """Return, for each copy, the candidates for each masked token and the probability of the first copy's best."""
        size, tokenizer = len(self.masked), self.served.tokenizer
        places_P = np.add.outer(len(self.ids) * np.arange(count), self.masked).ravel()
        batch = MaskedBatch.extend(self._collate(self.ids, count), masked_lm_positions=places_P)
        logits_PV = self.served.fill_mask.engine.run(batch)["logits"][:, : tokenizer.vocab_size]
        candidates = top_candidates(logits_PV, tokenizer.tokens.__getitem__, _TOP_K)
        first_P = np.tile(logits_PV[:size].argmax(1), count)
        shares_P = np.exp(logits_PV[np.arange(len(places_P)), first_P] - log_of_sum(logits_PV))
        of_copies = [candidates[start : start + size] for start in range(0, len(candidates), size)]
        return of_copies, shares_P.reshape(count, size).tolist()

    def _follow(self, count: int) -> list[float]:
        batch = self._collate(self.window.encoding.input_ids, count)
        shares_B2 = softmax(self.served.next_sentence.engine.run(batch)["logits"])
        shares: list[float] = shares_B2[:, IS_NEXT].tolist()
        return shares

    def _label(self, count: int) -> list[dict[str, float]]:
        kind, engine = self.served.predictor.task.answer, self.served.predictor.engine
        batches = [kind.batch([feature] * count) for feature in self.features]
        outputs = [kind.outputs(engine.run(batch)["logits"], batch) for batch in batches]
        example = LabeledText(self.window.text, self.window.pair)
        answers = [kind.decode(example, self.features, windows) for windows in zip(*outputs, strict=True)]
        return [
            {"score": answer} if isinstance(answer, float) else answer.probabilities for answer in answers
        ]


def word(served: ServedModel, word: str, sentences: list[str]) -> dict[str, Any]:
    """Return the vectors of a word in each layer, in two dimensions, and their cosines."""
    shown = served.model.encoder, served.tokenizer, word, sentences
    senses = word_in_context(*shown, max_occurrences=MAX_OCCURRENCES)
    points, shares = senses.project_to_plane()
    arrays = {"points": points, "shares": shares, "cosines": senses.cosines()}
    return {
        "occurrences": senses.occurrences,
        **{name: rounded(torch.from_numpy(array)) for name, array in arrays.items()},
    }


def _size(served: ServedModel) -> dict[str, int]:
    return {"layers": served.model.config.num_hidden_layers, "heads": served.model.config.num_attention_heads}


def _tokens(served: ServedModel, window: TextWindow) -> dict[str, Any]:
    """Return the tokens as they were written, those that the vocabulary does not know, and where the window is."""
    ids, unknown_id = window.encoding.input_ids, served.tokenizer.unknown_id
    return {
        "tokens": window.written_tokens(served.tokenizer),
        "token_type_ids": window.encoding.token_type_ids,
        "unknown": [place for place, token_id in enumerate(ids) if token_id == unknown_id],
        "window": {"start": window.start, "count": window.count, "total": window.total},
    }


def _masked_lm(model: FillMask, trace: TokenTrace) -> dict[str, Any]:
    transformed, logits, candidates = trace_masked_lm(model, trace.hidden_states, top_k=_TOP_K)
    return {"transformed": _vector(transformed), "logits": rounded(logits), "candidates": candidates}


def _pooler(model: NextSentence, trace: TokenTrace) -> dict[str, Any]:
    module: Any = model.module
    layer = module.next_sentence
    with torch.inference_mode():
        logits = layer(trace.pooled.to(layer.weight.device, layer.weight.dtype)).float().cpu()
    return {
        "pooled": _vector(trace.pooled),
        "logits": rounded(logits),
        "is_next": rounded(logits.softmax(-1)[IS_NEXT]),
    }


def _vector(vector: Tensor) -> dict[str, Any]:
    """Return the length of a vector, and its numbers."""
    return {"norm": rounded(vector.norm()), "values": to_base64(vector)}
