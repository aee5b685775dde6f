"""Follow one token from its embeddings through every layer to the heads, and read the MLM head after each layer.

The vectors are recorded while the encoder runs, so they are the numbers that it computes, not a second calculation.

Shapes: L layers, T tokens, D hidden, I intermediate.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.explorer.encoder_internals import encode_untruncated
from cloze.inference.pretrained_heads import Candidate, top_candidates
from cloze.models.encoder import Encoder
from cloze.models.heads import MaskedLMHead
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """A token's way through the layers, and how far every token moved; vectors in float32 on the CPU."""

    token: int
    """The token that was followed, counted from 0."""
    layers: tuple[dict[str, Tensor], ...]
    """The token's vector at each of the `layer_steps` of the encoder, [D] or, of the intermediate one, [I]."""
    hidden_states: Tensor
    """The token's vector after the embeddings and after each layer, [L + 1, D]."""
    movements: Tensor
    """1 - cosine of every token's vector before and after each layer, [L, T]."""
    pooled: Tensor
    """The pooler's output for the text, [D]: a dense layer and an activation on [CLS]."""


@torch.inference_mode()
def trace_token(
    model: Encoder, tokenizer: Tokenizer, text: str, pair: str | None = None, *, token: int | None = None
) -> TokenTrace:
    """Record a token's vectors in every layer.

    Args:
        model: an encoder whose layers have the submodules of BERT's.
        token: counted from 0; 0 is [CLS]. None takes the first [MASK], or else the token in the middle.

    Source:
        Vaswani et al. 2017, 3.1 and figure 1.
    """
    encoding, batch = encode_untruncated(model, tokenizer, text, pair)
    if token is None:
        ids = encoding.input_ids
        token = ids.index(tokenizer.mask_id) if tokenizer.mask_id in ids else len(ids) // 2
    if not 0 <= token < len(encoding):
        raise InputError(f"{token} is not in 0..{len(encoding) - 1}", where="token")
    if not model.layer_steps:
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
        for step, (name, place) in model.layer_steps.items()
    ]
    try:
        encoded = model(batch, output_hidden_states=True)
    finally:
        for handle in handles:
            handle.remove()
    hidden_states = torch.stack(encoded.hidden_states).float().cpu()
    movements_LT = 1 - torch.cosine_similarity(hidden_states[:-1], hidden_states[1:], dim=-1)
    return TokenTrace(
        token=token,
        layers=tuple({step: steps[step] for step in model.layer_steps} for steps in recorded),
        hidden_states=hidden_states[:, token],
        movements=movements_LT,
        pooled=encoded.pooled_output[0].float().cpu(),
    )


@dataclass(frozen=True, slots=True)
class MaskedLMTrace:
    """The candidates that the MLM head reads from a vector after each layer."""

    transformed: Tensor
    """The last layer's vector after the head's dense layer, activation and LayerNorm, [D]."""
    logits: tuple[float, ...]
    """Of the last layer's candidates: `transformed` · the token's embedding + its bias."""
    candidates: tuple[list[Candidate], ...]
    """The most probable tokens after the embeddings and after each layer."""


@torch.inference_mode()
def trace_masked_lm(
    head: MaskedLMHead,
    word_embeddings: Tensor,
    tokenizer: Tokenizer,
    hidden_states: Tensor,
    *,
    top_k: int = 5,
) -> MaskedLMTrace:
    """Apply the MLM head to a token's vector after each layer.

    The head was trained on the last layer only; on the others it shows what the vector is already like.

    Args:
        word_embeddings: [V, D], its output matrix.
        hidden_states: `TokenTrace.hidden_states`, [L + 1, D].

    Source:
        nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    hidden_LD = hidden_states.to(word_embeddings.device, word_embeddings.dtype)
    logits_LV = head(hidden_LD, word_embeddings)[:, : tokenizer.vocab_size].float().cpu()
    return MaskedLMTrace(
        transformed=head.transform(hidden_LD[-1]).float().cpu(),
        logits=tuple(logits_LV[-1].topk(min(top_k, tokenizer.vocab_size)).values.tolist()),
        candidates=tuple(top_candidates(logits_LV.numpy(), tokenizer.tokens.__getitem__, top_k)),
    )
