"""Show the numbers inside an encoder: input embeddings, attention weights, and the vectors of one token in every layer.

The encoder runs as usual: vectors are recorded while it computes them, and query, key and value are the layer's own
projections of its input. So there is no second implementation that could differ from the first.

Shapes: L layers, T tokens, N heads, H head size, D hidden, I intermediate.
"""

import base64
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

from cloze.data.batch import PackedBatch, collate
from cloze.errors import InputError
from cloze.inference.answerer import check_length
from cloze.inference.pretrained_heads import Candidate, FillMask, top_candidates
from cloze.models.batch import to_device
from cloze.models.encoder import Encoder, get_encoder
from cloze.reports.page import render_page
from cloze.tokenization.tokenizer import Encoding, Tokenizer

EMBEDDINGS = ("word", "segment", "position")
"""The three embeddings that are summed."""
_DIGITS = 6
_MAX_MEGABYTES = 32  # of a page, for browsers


def encode_untruncated(
    model: nn.Module, tokenizer: Tokenizer, text: str, pair: str | None = None
) -> tuple[Encoding, PackedBatch]:
    """Encode a text or a pair that must fit the model; return it and a batch of it on the model's device."""
    encoding = tokenizer.encode(text, pair)
    check_length(encoding.input_ids, get_encoder(model).config.max_position_embeddings)
    return encoding, batch_of(model, encoding)


def batch_of(model: nn.Module, *encodings: Encoding) -> PackedBatch:
    """Return a batch of encodings on the model's device."""
    batch = collate([e.input_ids for e in encodings], [e.token_type_ids for e in encodings])
    return to_device(batch, next(model.parameters()).device)


@torch.inference_mode()
def input_embeddings(model: Encoder, encoding: Encoding) -> dict[str, Tensor]:
    """Return `EMBEDDINGS` of each token, 0 where the encoder has no such, and the LayerNorm of their sum, `normalized`.

    Shapes: [T, D] each, in float32 on the CPU.

    Source: Devlin et al. 2019, figure 2.
    """
    batch = batch_of(model, encoding)
    normalized_TD = model.embeddings(batch)
    parts = {name: part_TD.float().cpu() for name, part_TD in model.embeddings.look_up(batch).items()}
    zeros_TD = torch.zeros(normalized_TD.shape)
    embeddings = {name: parts.get(name, zeros_TD) for name in EMBEDDINGS}
    return {**embeddings, "normalized": normalized_TD.float().cpu()}


@dataclass(frozen=True, slots=True)
class LayerAttention:
    """Query, key and value of one layer, each [N, T, H] in float32 on the CPU."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor | None = None
    """Is added to the scores, [N, T, T]."""

    @property
    def scores(self) -> Tensor:
        """q·k / sqrt(H) + bias, [N, T, T]: a row for each token that attends, a column for each it attends to."""
        scores_NTT = self.query @ self.key.transpose(1, 2) / math.sqrt(self.query.shape[-1])
        return scores_NTT if self.bias is None else scores_NTT + self.bias

    @property
    def weights(self) -> Tensor:
        """Softmax of each row of the scores, [N, T, T]."""
        return self.scores.softmax(-1)


@dataclass(frozen=True, slots=True, repr=False)
class AttentionMap:
    """The tokens of a text and the attention of every layer, from the first to the last."""

    tokens: tuple[str, ...]
    token_type_ids: tuple[int, ...]
    layers: tuple[LayerAttention, ...]

    def page(self, *, model: str = "") -> str:
        """Return an HTML page of all heads, which needs no network; its script computes the weights.

        Args:
            model: name or path of the model.

        Raises:
            InputError: the scores have a bias, which the page does not show, or the page would be over 32 MB.
        """
        if self.layers[0].bias is not None:
            what = "its attention scores have a bias, which the page does not show"
            raise InputError(what, where="model", remedy="Leave the page out")
        num_heads, num_tokens, head_size = self.layers[0].query.shape
        num_floats = 2 * len(self.layers) * num_heads * num_tokens * head_size
        megabytes = num_floats * 4 * 4 / 3 / 1e6  # base64 writes 3 of the 4 bytes of a float as 4 characters
        if megabytes > _MAX_MEGABYTES:
            what = f"{num_tokens} tokens make a page of {megabytes:.0f} MB, over {_MAX_MEGABYTES}"
            raise InputError(what, where="text", remedy="Give a shorter text")
        data = {
            "tokens": self.tokens,
            "segments": self.token_type_ids,
            "layers": len(self.layers),
            "heads": num_heads,
            "headSize": head_size,
            "query": to_base64(torch.stack([layer.query for layer in self.layers])),
            "key": to_base64(torch.stack([layer.key for layer in self.layers])),
        }
        return render_page(
            "attention",
            data,
            name=" ".join(token for token in self.tokens if token not in ("[CLS]", "[SEP]"))[:80] or "[CLS]",
            kind="Attention",
            extent=model,
            tiles=[
                ("Tokens", str(num_tokens), "with [CLS] and [SEP]"),
                ("Layers", str(len(self.layers)), "the first reads the embeddings"),
                ("Heads", str(num_heads), f"in each layer, of size {head_size}"),
            ],
        )

    def __repr__(self) -> str:
        heads = len(self.layers[0].query)
        return f"AttentionMap({len(self.tokens)} tokens, {len(self.layers)} layers, {heads} heads)"

    def _repr_html_(self) -> str | None:
        """Return the page for a notebook, to which its scripts have no access, or None if `page` refuses."""
        style = "width: 100%; height: 40rem; border: 0; border-radius: .5rem"
        frame = f'<iframe title="Attention" sandbox="allow-scripts" style="{style}" srcdoc="{{}}"></iframe>'
        with suppress(InputError):
            return Markup(frame).format(self.page())
        return None


@torch.inference_mode()
def attention_map(model: Encoder, tokenizer: Tokenizer, text: str, pair: str | None = None) -> AttentionMap:
    """Return the attention within a text, or within a pair of texts.

    Source: Vaswani et al. 2017, 3.2.1.
    """
    if model.config.attends_to != "all":
        what = f"attends to the {model.config.attends_to} only: such attention is not shown"
        raise InputError(what, where="model")
    encoding, batch = encode_untruncated(model, tokenizer, text, pair)
    if model.half_window is not None and len(encoding) > model.half_window + 1:
        what = f"{len(encoding)} tokens: the local layers of the model see {model.half_window} on each side"
        remedy = f"Give a text of at most {model.half_window + 1} tokens, which all layers see whole"
        raise InputError(what, where="text", remedy=remedy)
    hidden_states = model(batch, output_hidden_states=True).hidden_states
    bias_NTT = model.attention_bias(len(encoding))
    bias_NTT = None if bias_NTT is None else bias_NTT.float().cpu()
    layers = []
    for layer, hidden_TD in enumerate(hidden_states[:-1]):
        projected = model.project_qkv(layer, hidden_TD, batch)
        query, key, value = (part.transpose(0, 1).float().cpu() for part in projected)
        layers.append(LayerAttention(query, key, value, bias_NTT))
    return AttentionMap(tuple(encoding.tokens), tuple(encoding.token_type_ids), tuple(layers))


def to_base64(values: Tensor) -> str:
    """Return numbers as little-endian float32 in base64."""
    return base64.b64encode(values.numpy().astype("<f4").tobytes()).decode()


def rounded(values: Tensor) -> Any:
    """Return numbers with few digits, for JSON."""
    return np.round(values.double().numpy(), _DIGITS).tolist()


def attention_row(layer: LayerAttention, *, head: int, token: int) -> dict[str, Tensor]:
    """Compute one head's output for one token, step by step; both are counted from 0.

    Returns:
        `query` of the token, [H]; `key` of every token, [T, H]; their `products`, [T]; `scores`, these / sqrt(H) plus
        the bias of an encoder that has one; `weights`, the softmax of these; `value` of every token, [T, H];
        `weighted`, each value times its weight; `context`, the sum of these, [H]: the output of the head.

    Source: Vaswani et al. 2017, 3.2.1.
    """
    query_H, key_TH, value_TH = layer.query[head, token], layer.key[head], layer.value[head]
    scores_T = layer.scores[head, token]
    weights_T = scores_T.softmax(-1)
    weighted_TH = weights_T[:, None] * value_TH
    return {
        "query": query_H,
        "key": key_TH,
        "products": key_TH @ query_H,
        "scores": scores_T,
        "weights": weights_T,
        "value": value_TH,
        "weighted": weighted_TH,
        "context": weighted_TH.sum(0),
    }


Head: TypeAlias = tuple[int, int]
"""A layer and a head of it, counted from 0."""


@contextmanager
def heads_off(encoder: Encoder, *heads: Collection[Head]) -> Iterator[None]:
    """Within the context, make the outputs of attention heads 0, before the dense layer on all of them.

    This holds for every head of a task on this encoder, as in `with heads_off(fill_mask.encoder, [(1, 2)])`. With
    several collections, a packed batch has as many parts of equal length, such as copies of a text, and each part has
    its own heads off.

    Source:
        Michel, Levy and Neubig 2019, "Are Sixteen Heads Really Better than One?", 2.3; `head_mask` of transformers 4.
    """
    layers: Any = encoder.layers
    num_heads = encoder.config.num_attention_heads
    of_layer: dict[int, list[tuple[int, int]]] = {}  # part and head
    for part, collection in enumerate(heads):
        for layer, head in collection:
            for name, number, count in (("layer", layer, len(layers)), ("head", head, num_heads)):
                if not 0 <= number < count:
                    raise InputError(f"{name} {number} is not in 0..{count - 1}", where="heads")
            if not hasattr(layers[layer], "attention_output"):
                raise InputError(f"the layers of a {type(encoder).__name__} have no heads", where="model")
            of_layer.setdefault(layer, []).append((part, head))

    def switch_off(places: list[tuple[int, int]]) -> Any:
        def hook(module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            (context_TD,) = inputs
            context_PLNH = context_TD.clone().view(
                len(heads), -1, num_heads, context_TD.shape[1] // num_heads
            )
            for part, head in places:
                context_PLNH[part, :, head] = 0
            return context_PLNH.view_as(context_TD)

        return hook

    handles = [
        layers[layer].attention_output.register_forward_pre_hook(switch_off(places))
        for layer, places in of_layer.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


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

    Source: Vaswani et al. 2017, 3.1 and figure 1.
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
    return TokenTrace(
        token=token,
        layers=tuple({step: steps[step] for step in model.layer_steps} for steps in recorded),
        hidden_states=hidden_states[:, token],
        movements=movements(hidden_states),
        pooled=encoded.pooled_output[0].float().cpu(),
    )


def movements(hidden_states: Tensor) -> Tensor:
    """Return 1 - cosine of every vector before and after each layer, [L, T], from [L + 1, T, D]."""
    return 1 - torch.cosine_similarity(hidden_states[:-1], hidden_states[1:], dim=-1)


@torch.inference_mode()
def all_hidden_states(model: Encoder, encoding: Encoding) -> Tensor:
    """Return the vectors of all tokens after the embeddings and after each layer, [L + 1, T, D]."""
    return (
        torch.stack(model(batch_of(model, encoding), output_hidden_states=True).hidden_states).float().cpu()
    )


@torch.inference_mode()
def masked_lm_logits(fill_mask: FillMask, vectors: Tensor) -> Tensor:
    """Apply the MLM head to vectors of any layer, [P, D]; return the scores of the vocabulary, [P, V].

    The head was trained on the last layer only; on the others it shows what a vector is already like.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    module: Any = fill_mask.module
    table_VD = fill_mask.encoder.embeddings.word_embeddings.weight
    logits_PV: Tensor = module.masked_lm(vectors.to(table_VD.device, table_VD.dtype), table_VD)
    return logits_PV[:, : fill_mask.tokenizer.vocab_size].float().cpu()


@torch.inference_mode()
def trace_masked_lm(
    fill_mask: FillMask, hidden_states: Tensor, *, top_k: int = 5
) -> tuple[Tensor, Tensor, list[list[Candidate]]]:
    """Apply the MLM head to a token's vector after each layer, [L + 1, D].

    Returns:
        The last layer's vector after the head's dense layer, activation and LayerNorm, [D]; the logits of the most
        probable tokens, this vector times their embeddings plus their biases; and the candidates after each layer.
    """
    table_VD = fill_mask.encoder.embeddings.word_embeddings.weight
    module: Any = fill_mask.module
    logits_LV = masked_lm_logits(fill_mask, hidden_states)
    return (
        module.masked_lm.transform(hidden_states[-1].to(table_VD.device, table_VD.dtype)).float().cpu(),
        logits_LV[-1].topk(min(top_k, logits_LV.shape[1])).values,
        top_candidates(logits_LV.numpy(), fill_mask.tokenizer.tokens.__getitem__, top_k),
    )
