"""The numbers of the explorer page's views, ready for JSON: attention, one head, the layers, a word's senses."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from cloze.data.batch import MaskedBatch, collate
from cloze.errors import InputError
from cloze.explorer.encoder_internals import (
    EMBEDDINGS,
    TokenTrace,
    attention_map,
    attention_row,
    heads_off,
    input_embeddings,
    to_base64,
    trace_masked_lm,
    trace_token,
)
from cloze.explorer.text_window import TextWindow
from cloze.explorer.word_in_context import word_in_context
from cloze.inference.pretrained_heads import IS_NEXT, FillMask, NextSentence, top_candidates
from cloze.serving.explorer_requests import (
    AblationRequest,
    HeadRequest,
    TextRequest,
    TokenRequest,
    WordRequest,
    window_of,
)
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText

MAX_OCCURRENCES = 64
"""Of a word; the response grows with their square."""
_FIRST_DIMENSIONS = 8
_TOP_K = 5
_DIGITS = 6
_INPUTS = (*EMBEDDINGS, "normalized")


def attention(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return the input embeddings and the attention weights of every head."""
    window = window_of(served, request)
    layers = attention_map(served.encoder, served.tokenizer, window.text, window.pair).layers
    return {
        **embeddings(served, request),
        **_size(served),
        "weights": to_base64(torch.stack([layer.weights for layer in layers])),
    }


def embeddings(served: ServedModel, request: TextRequest) -> dict[str, Any]:
    """Return the tokens and their input embeddings: the lengths, and the first numbers."""
    window = window_of(served, request)
    embeddings = input_embeddings(served.encoder, window.encoding)
    return {
        **_tokens(served, window),
        "input_ids": window.encoding.input_ids,
        "embeddings": {
            name: {
                "norms": _rounded(embeddings[name].norm(dim=-1)),
                "first": _rounded(embeddings[name][:, :_FIRST_DIMENSIONS]),
            }
            for name in _INPUTS
        },
    }


def head(served: ServedModel, request: HeadRequest) -> dict[str, Any]:
    """Return one head's computation for one token."""
    text = window_of(served, request).text
    attention = attention_map(served.encoder, served.tokenizer, text, request.pair)
    for name, number, count in (
        ("layer", request.layer, len(attention.layers)),
        ("head", request.head, len(attention.layers[0].query)),
        ("token", request.token, len(attention.tokens)),
    ):
        if number >= count:
            raise InputError(f"{number} is not in 0..{count - 1}", where=name)
    row = attention_row(attention.layers[request.layer], head=request.head, token=request.token)
    return {name: _rounded(values) for name, values in row.items()}


def layers(served: ServedModel, request: TokenRequest) -> dict[str, Any]:
    """Return one token's vectors at every step, its attention, and what the heads of pre-training read from them."""
    window = window_of(served, request)
    shown = served.encoder, served.tokenizer, window.text, window.pair
    attention, trace = attention_map(*shown), trace_token(*shown, token=request.token)
    embeddings = input_embeddings(served.encoder, window.encoding)
    return {
        **_tokens(served, window),
        "token": trace.token,
        "token_id": window.encoding.input_ids[trace.token],
        "heads": served.config.num_attention_heads,
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
                "scores": _rounded(layer_attention.scores[:, trace.token]),
                "weights": _rounded(layer_attention.weights[:, trace.token]),
                "movements": _rounded(movements_T),
            }
            for steps, layer_attention, movements_T in zip(
                trace.layers, attention.layers, trace.movements, strict=True
            )
        ],
        "masked_lm": None if served.fill_mask is None else _masked_lm(served.fill_mask, trace),
        "pooler": None if served.next_sentence is None else _pooler(served.next_sentence, trace),
    }


def ablation(served: ServedModel, request: AblationRequest) -> dict[str, Any]:
    """Return the answers of a model, `all`, and those `without` some attention heads.

    An answer has the candidates for each masked token, the probability that the pair follows, and that of each label,
    each None where no head answers; and whether the text is truncated for the labels.
    """
    window, tokenizer, token = window_of(served, request), served.tokenizer, request.token
    encoding, pair, fill_mask = window.encoding, window.pair, served.fill_mask
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
        if served.next_sentence is not None and pair is not None:
            pairs = served.next_sentence.encode([(window.text, pair)])
            (is_next,) = served.next_sentence.probabilities(pairs)
        if "predict" in served.abilities:
            (prediction,), losses = served.predictor.predict([LabeledText(window.text, pair)])
            is_number = isinstance(prediction, float)
            labels = {"score": prediction} if is_number else prediction.probabilities
            is_truncated = losses.truncated > 0
        return {"masks": candidates, "is_next": is_next, "labels": labels, "is_truncated": is_truncated}

    everything = answers()
    with heads_off(served.encoder, [(layer, head) for layer, head in request.heads]):
        without = answers()
    return {
        **_tokens(served, window),
        **_size(served),
        "masked": masked,
        "all": everything,
        "without": without,
    }


def word(served: ServedModel, request: WordRequest) -> dict[str, Any]:
    """Return the vectors of a word in each layer, in two dimensions, and their cosines."""
    senses = word_in_context(
        served.encoder, served.tokenizer, request.word, request.sentences, max_occurrences=MAX_OCCURRENCES
    )
    points, shares = senses.project_to_plane()
    return {
        "occurrences": senses.occurrences,
        "points": _rounded(torch.from_numpy(points)),
        "shares": _rounded(torch.from_numpy(shares)),
        "cosines": _rounded(torch.from_numpy(senses.cosines())),
    }


def _size(served: ServedModel) -> dict[str, int]:
    return {"layers": served.config.num_hidden_layers, "heads": served.config.num_attention_heads}


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
    return {"transformed": _vector(transformed), "logits": _rounded(logits), "candidates": candidates}


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
