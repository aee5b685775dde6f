"""The BERT encoder (Devlin et al. 2019, section 3): embeddings, a stack of Transformer layers, a pooler.

Shapes: T tokens in the packed batch, B sequences, L columns of a padded batch, D hidden, N heads,
H head size, I intermediate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.attention import AttendsTo, attention
from cloze.model.dropout import dropout
from cloze.model.packed import Packed, pack_padded
from cloze.model.registry import register_encoder

__all__ = ["ACTIVATIONS", "SIZES", "BertConfig", "BertModel", "EncoderOutput", "Packed", "initialize_weights"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig:
    """The architecture, with the paper's BERT-base as defaults and Hugging Face's names."""

    vocab_size: int = 30_522
    """Word pieces in the vocabulary; that of the released uncased models has 30,522."""
    hidden_size: int = 768
    """H of the paper: the width of every layer's input and output."""
    num_hidden_layers: int = 12
    """L of the paper: Transformer layers."""
    num_attention_heads: int = 12
    """A of the paper; divides `hidden_size`."""
    intermediate_size: int = 3072
    """Width of the feed-forward layer, 4H in the paper."""
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu"
    """`gelu` is the erf form, `gelu_tanh` Google's since February 2019 ("gelu_new" in HF's files)."""
    hidden_dropout_prob: float = 0.1
    """Dropout after the embeddings and after both halves of every layer."""
    attention_probs_dropout_prob: float = 0.1
    """Dropout of the attention weights."""
    max_position_embeddings: int = 512
    """The longest sequence, in tokens."""
    type_vocab_size: int = 2
    """Segments: A and B."""
    initializer_range: float = 0.02
    """Standard deviation of the initial weights, cut off at twice that."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in LayerNorm."""
    attends_to: AttendsTo = "all"
    """What each token sees: all of its sequence, as BERT does, or itself and one side alone (5.1 of the paper)."""

    def __post_init__(self) -> None:
        sizes = (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
            "type_vocab_size",
        )
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size = {self.hidden_size} is not a multiple of "
                f"num_attention_heads = {self.num_attention_heads}"
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(f"hidden_act = {self.hidden_act!r} must be one of {', '.join(ACTIVATIONS)}")
        if self.attends_to not in get_args(AttendsTo):
            raise ValueError(
                f"attends_to = {self.attends_to!r} must be one of {', '.join(get_args(AttendsTo))}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 0 and less than 1")
        for name in ("initializer_range", "layer_norm_eps"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be more than 0 and at most 1")

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


def _gelu_tanh(hidden: Tensor) -> Tensor:
    return nn.functional.gelu(hidden, approximate="tanh")


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"gelu": nn.functional.gelu, "gelu_tanh": _gelu_tanh}
)


def _size(num_hidden_layers: int, hidden_size: int) -> BertConfig:
    return BertConfig(
        num_hidden_layers=num_hidden_layers,
        hidden_size=hidden_size,
        num_attention_heads=hidden_size // 64,
        intermediate_size=4 * hidden_size,
    )


SIZES: Mapping[str, BertConfig] = MappingProxyType(
    {
        "tiny": _size(2, 128),
        "mini": _size(4, 256),
        "small": _size(4, 512),
        "medium": _size(8, 512),
        "base": _size(12, 768),
        "large": _size(24, 1024),
    }
)
"""The sizes that Google released, base and large being the paper's."""


class EncoderOutput(NamedTuple):
    """What an encoder gives: [T, D] and [B, D] for a packed batch, [B, L, D] and [B, D] for a padded one."""

    sequence_output: Tensor
    """The last layer, a vector a token: T_i of the paper."""
    pooled_output: Tensor
    """tanh of a dense layer on [CLS], a vector a sequence; on the last token, where each sees its left alone."""
    hidden_states: tuple[Tensor, ...]
    """Embeddings and every layer where they were asked for, else empty."""


class BertEmbeddings(nn.Module):
    """Word piece + segment + position, normalised (figure 2 of the paper).

    Source:
        Devlin et al. 2019, 3 and figure 2; google-research/bert modeling.py:385, 428 @eedf571.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = _table(config.vocab_size, config.hidden_size)
        self.token_type_embeddings = _table(config.type_vocab_size, config.hidden_size)
        self.position_embeddings = _table(config.max_position_embeddings, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self._dropout_prob = config.hidden_dropout_prob

    def forward(self, packed: Packed) -> Tensor:
        """Return [T, D]."""
        hidden_TD = (
            self.word_embeddings(packed.input_ids)
            + self.token_type_embeddings(packed.token_type_ids)
            + self.position_embeddings(packed.position_ids)
        )
        hidden_TD = dropout(self.layer_norm(hidden_TD), self._dropout_prob if self.training else 0.0)
        device = hidden_TD.device.type
        # between the layers as within them, or each of them would convert there and back
        return (
            hidden_TD.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else hidden_TD
        )


def _table(num_rows: int, hidden_size: int) -> nn.Embedding:
    """Return a table whose rows `initialize_weights` or a file sets.

    Not drawn first as `nn.Embedding(...)` does: where only shapes are made, that imports torch's compiler.
    """
    rows = torch.empty(num_rows, hidden_size)
    table: nn.Embedding = nn.Embedding.from_pretrained(rows, freeze=False)  # type: ignore[no-untyped-call]
    return table


class BertLayer(nn.Module):
    """Self-attention, then a feed-forward layer; each with dropout, a residual connection and LayerNorm.

    Source:
        Devlin et al. 2019, 3; Vaswani et al. 2017, 3.1; google-research/bert modeling.py:752 @eedf571.

    Differs:
        Query, key and value are one matrix product.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.attention_output = nn.Linear(hidden_size, hidden_size)
        self.attention_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self.intermediate = nn.Linear(hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, hidden_size)
        self.output_layer_norm = nn.LayerNorm(hidden_size, eps=config.layer_norm_eps)
        self._activation = ACTIVATIONS[config.hidden_act]
        self._num_heads = config.num_attention_heads
        self._attends_to = config.attends_to
        self._hidden_dropout_prob = config.hidden_dropout_prob
        self._attention_dropout_prob = config.attention_probs_dropout_prob

    def forward(self, hidden_TD: Tensor, packed: Packed) -> Tensor:
        """Return the next [T, D]."""
        hidden_dropout_prob = self._hidden_dropout_prob if self.training else 0.0
        attention_dropout_prob = self._attention_dropout_prob if self.training else 0.0

        query_TNH, key_TNH, value_TNH = self.project(hidden_TD)
        context_TNH = attention(
            query_TNH, key_TNH, value_TNH, packed, attention_dropout_prob, self._attends_to
        )
        attended_TD = dropout(self.attention_output(context_TNH.flatten(1)), hidden_dropout_prob)
        hidden_TD = self.attention_layer_norm(hidden_TD + attended_TD)

        intermediate_TI = self._activation(self.intermediate(hidden_TD))
        output_TD = dropout(self.output(intermediate_TI), hidden_dropout_prob)
        next_TD: Tensor = self.output_layer_norm(hidden_TD + output_TD)
        return next_TD

    def project(self, hidden_TD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key and value, each [T, N, H]."""
        qkv_T3NH = self.query_key_value(hidden_TD).unflatten(-1, (3, self._num_heads, -1))
        query_TNH, key_TNH, value_TNH = qkv_T3NH.unbind(1)
        return query_TNH, key_TNH, value_TNH


@register_encoder("bert")
class BertModel(nn.Module):
    """The encoder with its pooler: what pre-training produces and every task starts from."""

    config_class: ClassVar[type[BertConfig]] = BertConfig

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        initialize_weights(self, config.initializer_range, generator)

    @property
    def cls_sees_text(self) -> bool:
        """Whether what the encoder says of [CLS], which stands first, hangs on what follows."""
        return self.config.attends_to != "left"

    def forward_packed(self, packed: Packed, *, keep_hidden_states: bool = False) -> EncoderOutput:
        """Encode sequences that lie end to end.

        Args:
            packed: on the device of the weights.
            keep_hidden_states: also give the embeddings and the output of every layer.

        Raises:
            InputError: an id, a segment or a position that the model has no row for (ids and segments are
                looked at on the CPU only: on a GPU that would wait for the device).
        """
        _check_rows(packed, self.config)
        hidden_TD = self.embeddings(packed)
        hidden_states = [hidden_TD]
        for layer in self.layers:
            hidden_TD = layer(hidden_TD, packed)
            if keep_hidden_states:
                hidden_states.append(hidden_TD)
        # [CLS], or the last token where that alone has seen the others
        starts, ends = packed.cu_seqlens[:-1], packed.cu_seqlens[1:]
        whole_BD = hidden_TD.index_select(0, starts if self.cls_sees_text else ends - 1)
        pooled_BD = self.pooler(whole_BD).tanh()
        return EncoderOutput(hidden_TD, pooled_BD, tuple(hidden_states) if keep_hidden_states else ())

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        keep_hidden_states: bool = False,
    ) -> EncoderOutput:
        """Encode a padded batch; it is packed at once, so padding costs nothing and changes nothing.

        Shapes:
            input_ids, attention_mask, token_type_ids [B, L]; outputs are 0 where the padding is.

        Args:
            attention_mask: bool, True = real.
            token_type_ids: 0 for segment A, 1 for B.

        Raises:
            InputError: as `forward_packed`, and for a mask of another dtype or an empty row.
        """
        packed, padding = pack_padded(input_ids, attention_mask, token_type_ids)
        output = self.forward_packed(packed, keep_hidden_states=keep_hidden_states)
        return EncoderOutput(
            padding.unpack_tokens(output.sequence_output),
            padding.unpack_sequences(output.pooled_output),
            tuple(padding.unpack_tokens(hidden_TD) for hidden_TD in output.hidden_states),
        )


@torch.no_grad()
def initialize_weights(
    module: nn.Module, initializer_range: float, generator: torch.Generator | None = None
) -> None:
    """Set every parameter of a module to where training starts.

    | parameter | start |
    |---|---|
    | weight of a dense layer or an embedding | normal of deviation `initializer_range`, within 2 of them |
    | bias | 0 |
    | LayerNorm gain | 1 |

    Args:
        generator: the same state gives the same weights; None takes torch's own.

    Source:
        google-research/bert modeling.py:377 @eedf571.
    """
    for inner in module.modules():
        if isinstance(inner, nn.Linear | nn.Embedding):
            limit = 2 * initializer_range
            nn.init.trunc_normal_(inner.weight, std=initializer_range, a=-limit, b=limit, generator=generator)
        if isinstance(inner, nn.Linear):
            inner.bias.zero_()
        elif isinstance(inner, nn.LayerNorm):
            inner.reset_parameters()


def _check_rows(packed: Packed, config: BertConfig) -> None:
    if packed.max_seqlen > config.max_position_embeddings:
        what = f"{packed.max_seqlen} tokens, the model takes {config.max_position_embeddings}"
        raise InputError(what, where="input_ids", remedy="Truncate or split the text")
    if packed.input_ids.device.type != "cpu":
        return
    tables = (
        ("input_ids", packed.input_ids, config.vocab_size),
        ("token_type_ids", packed.token_type_ids, config.type_vocab_size),
        ("position_ids", packed.position_ids, config.max_position_embeddings),
    )
    for name, ids_T, num_rows in tables:
        lowest, highest = (int(bound) for bound in ids_T.aminmax())
        if lowest < 0 or highest >= num_rows:
            wrong = lowest if lowest < 0 else highest
            raise InputError(f"{wrong} is not in 0..{num_rows - 1}", where=name)
