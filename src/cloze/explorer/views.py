"""The numbers of the explorer page's views, ready for JSON: attention, one head, the layers, a word's senses."""

from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cloze.data.batch import MaskedBatch, collate
from cloze.errors import InputError
from cloze.explorer.ablation import Head, heads_off
from cloze.explorer.encoder_internals import (
    EMBEDDINGS,
    AttentionMap,
    LayerAttention,
    attention_map,
    attention_row,
    input_embeddings,
    to_base64,
)
from cloze.explorer.layer_trace import TokenTrace, trace_masked_lm, trace_token
from cloze.explorer.text_window import TextWindow
from cloze.explorer.word_in_context import word_in_context
from cloze.inference.predictor import Predictor
from cloze.inference.pretrained_heads import IS_NEXT, FillMask, NextSentence, top_candidates
from cloze.models.encoder import Encoder
from cloze.tasks.texts import LabeledText
from cloze.tokenization.tokenizer import Tokenizer

MAX_OCCURRENCES = 64
"""Of a word; the response grows with their square."""
_FIRST_DIMENSIONS = 8
_TOP_K = 5
_DIGITS = 6
_INPUTS = (*EMBEDDINGS, "normalized")


def view_attention(encoder: Encoder, tokenizer: Tokenizer, window: TextWindow) -> dict[str, Any]:
    """Return the input embeddings and the attention weights of every head."""
    config = encoder.config
    layers = attention_map(encoder, tokenizer, window.text, window.pair).layers
    return {
        **view_input(encoder, tokenizer, window),
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "weights": to_base64(torch.stack([layer.weights for layer in layers])),
    }


def view_input(encoder: Encoder, tokenizer: Tokenizer, window: TextWindow) -> dict[str, Any]:
    """Return the tokens and their input embeddings: the lengths, and the first numbers."""
    embeddings = input_embeddings(encoder, window.encoding)
    return {
        **_tokens(tokenizer, window),
        "input_ids": window.encoding.input_ids,
        "token_type_ids": window.encoding.token_type_ids,
        "embeddings": {
            name: {
                "norms": _rounded(embeddings[name].norm(dim=-1)),
                "first": _rounded(embeddings[name][:, :_FIRST_DIMENSIONS]),
            }
            for name in _INPUTS
        },
    }


def view_head(attention: AttentionMap, *, layer: int, head: int, token: int) -> dict[str, Any]:
    """Return one head's computation for one token."""
    for name, number, count in (
        ("layer", layer, len(attention.layers)),
        ("head", head, len(attention.layers[0].query)),
        ("token", token, len(attention.tokens)),
    ):
        if number >= count:
            raise InputError(f"{number} is not in 0..{count - 1}", where=name)
    row = attention_row(attention.layers[layer], head=head, token=token)
    return {name: _rounded(values) for name, values in row.items()}


def view_layers(
    encoder: Encoder,
    tokenizer: Tokenizer,
    window: TextWindow,
    *,
    token: int | None = None,
    fill_mask: FillMask | None = None,
    next_sentence: NextSentence | None = None,
) -> dict[str, Any]:
    """Return one token's vectors at every step, its attention, and what the heads of pre-training read from them."""
    attention = attention_map(encoder, tokenizer, window.text, window.pair)
    trace = trace_token(encoder, tokenizer, window.text, window.pair, token=token)
    embeddings = input_embeddings(encoder, window.encoding)
    return {
        **_tokens(tokenizer, window),
        "token_type_ids": window.encoding.token_type_ids,
        "token": trace.token,
        "token_id": window.encoding.input_ids[trace.token],
        "heads": encoder.config.num_attention_heads,
        "input": {name: _vector(embeddings[name][trace.token]) for name in _INPUTS},
        "layers": [
            {
                "steps": {
                    **_projections(layer_attention, trace.token),
                    **{step: _vector(vector) for step, vector in steps.items()},
                },
                "scores": _rounded(layer_attention.scores[:, trace.token]),
                "weights": _rounded(layer_attention.weights[:, trace.token]),
                "movements": _rounded(movements_T),
            }
            for steps, layer_attention, movements_T in zip(
                trace.layers, attention.layers, trace.movements, strict=True
            )
        ],
        "masked_lm": None if fill_mask is None else _masked_lm(fill_mask, trace),
        "pooler": None if next_sentence is None else _pooler(next_sentence, trace),
    }


def view_ablation(
    encoder: Encoder,
    tokenizer: Tokenizer,
    window: TextWindow,
    *,
    heads: Collection[Head],
    token: int | None = None,
    fill_mask: FillMask | None = None,
    next_sentence: NextSentence | None = None,
    classifier: Predictor | None = None,
) -> dict[str, Any]:
    """Return the answers of a model, `all`, and those `without` some attention heads.

    An answer has the candidates for each masked token, the probability that the pair follows, and that of each label,
    each None where no model answers; and whether the text is truncated for the labels.

    Args:
        encoder: the encoder that all three have.
        token: the token to mask if none is [MASK], counted from 0; None takes the one in the middle.
        fill_mask: answers with the masked tokens.
        next_sentence: answers whether the pair follows.
        classifier: answers with labels, or with a number, which is called `score`.
    """
    encoding, pair = window.encoding, window.pair
    ids = list(encoding.input_ids)
    if fill_mask is not None and tokenizer.mask_id not in ids:
        token = len(ids) // 2 if token is None else token
        if token >= len(ids) or encoding.sequence_ids[token] is None:
            raise InputError(f"{token} is no token of the text", where="token")
        ids[token] = tokenizer.mask_id
    masked = [place for place, token_id in enumerate(ids) if token_id == tokenizer.mask_id]

    def answers() -> dict[str, Any]:
        candidates = is_next = labels = None
        is_truncated = False
        if fill_mask is not None:
            batch = collate([ids], [encoding.token_type_ids])
            batch = MaskedBatch.extend(batch, masked_lm_positions=np.array(masked))
            logits_PV = fill_mask.engine.run(batch)["logits"][:, : tokenizer.vocab_size]
            candidates = top_candidates(logits_PV, tokenizer.tokens.__getitem__, _TOP_K)
        if next_sentence is not None and pair is not None:
            (is_next,) = next_sentence.probabilities(next_sentence.encode([(window.text, pair)]))
        if classifier is not None:
            (prediction,), losses = classifier.predict([LabeledText(window.text, pair)])
            is_number = isinstance(prediction, float)
            labels = {"score": prediction} if is_number else prediction.probabilities
            is_truncated = losses.truncated > 0
        return {"masks": candidates, "is_next": is_next, "labels": labels, "is_truncated": is_truncated}

    everything = answers()
    with heads_off(encoder, heads):
        without = answers()
    return {
        **_tokens(tokenizer, window),
        "token_type_ids": encoding.token_type_ids,
        "layers": encoder.config.num_hidden_layers,
        "heads": encoder.config.num_attention_heads,
        "masked": masked,
        "all": everything,
        "without": without,
    }


def view_word(encoder: Encoder, tokenizer: Tokenizer, word: str, sentences: list[str]) -> dict[str, Any]:
    """Return the vectors of a word in each layer, in two dimensions, and their cosines."""
    senses = word_in_context(encoder, tokenizer, word, sentences, max_occurrences=MAX_OCCURRENCES)
    points, shares = senses.project_to_plane()
    return {
        "occurrences": senses.occurrences,
        "points": _rounded(torch.from_numpy(points)),
        "shares": _rounded(torch.from_numpy(shares)),
        "cosines": _rounded(torch.from_numpy(senses.cosines())),
    }


def _tokens(tokenizer: Tokenizer, window: TextWindow) -> dict[str, Any]:
    """Return the tokens as they were written, those that the vocabulary does not know, and where the window is."""
    ids, unknown_id = window.encoding.input_ids, tokenizer.unknown_id
    return {
        "tokens": window.written_tokens(tokenizer),
        "unknown": [place for place, token_id in enumerate(ids) if token_id == unknown_id],
        "window": {"start": window.start, "count": window.count, "total": window.total},
    }


def _projections(attention: LayerAttention, token: int) -> dict[str, Any]:
    """Return a token's query, key and value, those of all heads side by side."""
    names = ("query", "key", "value")
    return {name: _vector(getattr(attention, name)[:, token].flatten()) for name in names}


def _masked_lm(model: FillMask, trace: TokenTrace) -> dict[str, Any]:
    module: Any = model.module
    table_VD = model.encoder.embeddings.word_embeddings.weight
    read = trace_masked_lm(module.masked_lm, table_VD, model.tokenizer, trace.hidden_states, top_k=_TOP_K)
    return {
        "transformed": _vector(read.transformed),
        "logits": _rounded(torch.tensor(read.logits)),
        "candidates": read.candidates,
    }


def _pooler(model: NextSentence, trace: TokenTrace) -> dict[str, Any]:
    module: Any = model.module
    layer = module.next_sentence
    with torch.inference_mode():
        logits = layer(trace.pooled.to(layer.weight.device, layer.weight.dtype)).float().cpu()
    return {
        "pooled": _vector(trace.pooled),
        "logits": _rounded(logits),
        "is_next": _rounded(logits.softmax(-1)[IS_NEXT]),
    }


def _vector(vector: Tensor) -> dict[str, Any]:
    """Return the length of a vector, and its numbers."""
    return {"norm": _rounded(vector.norm()), "values": to_base64(vector)}


def _rounded(values: Tensor) -> Any:
    scale = 10.0**_DIGITS
    return ((values.double() * scale).round() / scale).tolist()
