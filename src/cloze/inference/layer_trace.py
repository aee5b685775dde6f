"""Follow one token through the layers of an encoder: each step's vector, and what the MLM head would predict so far.

The vectors are recorded while the encoder runs, so they are the numbers that it computes, not a second calculation.

Shapes: L layers, T tokens, D hidden, I intermediate.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.inference.fill_mask import Candidate
from cloze.inference.loading import encode_untruncated
from cloze.models.bert import BertLayer
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForMaskedLM
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class LayerSteps:
    """One token in one layer, step by step; vectors in float32 on the CPU, all [D] but `intermediate`."""

    context: Tensor
    """The outputs of all heads, side by side."""
    attended: Tensor
    """A dense layer on them."""
    attention_sum: Tensor
    """That plus the input of the layer: the first residual connection."""
    attention_normalized: Tensor
    """LayerNorm of the sum."""
    intermediate: Tensor
    """A dense layer and the activation, [I]."""
    output: Tensor
    """A dense layer back to [D]."""
    output_sum: Tensor
    """That plus `attention_normalized`: the second residual connection."""
    normalized: Tensor
    """LayerNorm of the sum: the output of the layer."""


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """A token's way through the layers, and how far every token moved."""

    tokens: tuple[str, ...]
    layers: tuple[LayerSteps, ...]
    hidden_states: Tensor
    """The token's vector after the embeddings and after each layer, [L + 1, D]."""
    movements: Tensor
    """1 - cosine of every token's vector before and after each layer, [L, T]."""


# the input (0) or output (1) of a submodule of a layer, by step
_RECORDED = {
    "context": ("attention_output", 0),
    "attended": ("attention_output", 1),
    "attention_sum": ("attention_layer_norm", 0),
    "attention_normalized": ("attention_layer_norm", 1),
    "intermediate": ("output", 0),
    "output": ("output", 1),
    "output_sum": ("output_layer_norm", 0),
    "normalized": ("output_layer_norm", 1),
}


@torch.inference_mode()
def trace_token(
    model: Encoder, tokenizer: Tokenizer, text: str, pair: str | None = None, *, token: int
) -> TokenTrace:
    """Record a token's vectors in every layer.

    Args:
        model: an encoder whose layers have the submodules of BERT's.
        tokenizer: its tokenizer.
        text: the text.
        pair: a second text.
        token: counted from 0; 0 is [CLS].

    Raises:
        InputError: the text has more tokens than the model takes, or `token` is not one of them.

    Source:
        Vaswani et al. 2017, 3.1 and figure 1.
    """
    encoding, batch = encode_untruncated(model, tokenizer, text, pair)
    if not 0 <= token < len(encoding):
        raise InputError(f"{token} is not in 0..{len(encoding) - 1}", where="token")
    if not all(isinstance(layer, BertLayer) for layer in model.layers):
        what = f"the layers of a {type(model).__name__} have other steps than BERT's"
        raise InputError(what, where="model", remedy="Give a model of another family")
    recorded: list[dict[str, Tensor]] = [{} for _ in model.layers]

    def record(module: nn.Module, layer: int, step: str, place: int) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            recorded[layer][step] = (inputs[0], output)[place][token].float().cpu()

        return module.register_forward_hook(hook)

    handles = [
        record(getattr(module, name), layer, step, place)
        for layer, module in enumerate(model.layers)
        for step, (name, place) in _RECORDED.items()
    ]
    try:
        hidden_states = torch.stack(model(batch, output_hidden_states=True).hidden_states).float().cpu()
    finally:
        for handle in handles:
            handle.remove()
    movements_LT = 1 - torch.cosine_similarity(hidden_states[:-1], hidden_states[1:], dim=-1)
    layers = tuple(
        LayerSteps(**{step.name: steps[step.name] for step in fields(LayerSteps)}) for steps in recorded
    )
    return TokenTrace(tuple(encoding.tokens), layers, hidden_states[:, token], movements_LT)


@torch.inference_mode()
def predictions_by_layer(
    model: BertForMaskedLM, tokenizer: Tokenizer, hidden_states: Tensor, *, top_k: int = 5
) -> list[list[Candidate]]:
    """Return the most probable tokens that the MLM head reads from a vector after each layer.

    The head was trained on the last layer only; on the others it shows what the vector is already like.

    Args:
        model: the encoder with its MLM head.
        tokenizer: its tokenizer.
        hidden_states: `TokenTrace.hidden_states`, [L + 1, D].
        top_k: number of candidates.

    Source:
        nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    table_VD = model.bert.embeddings.word_embeddings.weight
    logits_LV = model.masked_lm(hidden_states.to(table_VD.device, table_VD.dtype), table_VD)
    top = logits_LV[:, : tokenizer.vocab_size].float().softmax(-1).topk(top_k)
    return [
        [Candidate(tokenizer.tokens[i], p) for i, p in zip(ids, probabilities, strict=True)]
        for ids, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]
