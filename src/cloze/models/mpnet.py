"""The MPNet encoder: BERT with a learned bias for each distance between tokens, and positions counted as in RoBERTa.

Shapes: T tokens in the packed batch, B sequences, L columns, N heads.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from cloze.data.batch import PackedBatch
from cloze.models.batch import PaddedBatch
from cloze.models.bert import BERT, BertEmbeddings, embedding_table, initialize_weights
from cloze.models.encoder import register_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.roberta import RobertaConfig, RobertaModel, pooler_in_classifier
from cloze.models.weight_mapping import renamed

_PADDING = 1  # in transformers, whatever config.json says
_NUM_BUCKETS = 32  # likewise
_BUCKET_STARTS = (*range(1, 9), *(math.ceil(8 * 2 ** (step / 2)) for step in range(1, 8)))
"""The least distance of each bucket of a side but the first: distances below 8 have buckets of their own."""


@dataclass(frozen=True, kw_only=True)
class MPNetConfig(RobertaConfig):
    """The fields of BERT; positions are counted from 2, whatever the padding token is."""

    has_token_types: ClassVar[bool] = False
    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType(
        {"type_vocab_size": None, "pad_token_id": None}
    )

    @property
    def embedding_weights(self) -> int:
        return super().embedding_weights + _NUM_BUCKETS * self.num_attention_heads

    def with_padding(self, pad_id: int) -> Self:
        return self

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        if table.get("relative_attention_num_buckets", _NUM_BUCKETS) != _NUM_BUCKETS:
            raise ValueError(f"relative_attention_num_buckets must be {_NUM_BUCKETS}")
        return super().from_json(table)


class MPNetEmbeddings(BertEmbeddings):
    """The sum of token and position embeddings, normalized; tokens with the id 1 have the position before the first."""

    def position_rows(self, batch: PackedBatch) -> Tensor:
        is_counted_T = (batch.input_ids != _PADDING).long()
        if isinstance(batch, PaddedBatch):
            is_counted_BL = is_counted_T * batch.is_real
            rows_BL: Tensor = is_counted_BL.cumsum(1) * is_counted_BL + _PADDING
            return rows_BL
        count_T = is_counted_T.cumsum(0)
        starts_B, lengths_B = batch.cu_seqlens[:-1], batch.cu_seqlens.diff()
        before_B = (count_T - is_counted_T).index_select(0, starts_B)
        before_T = before_B.repeat_interleave(lengths_B, output_size=len(count_T))
        rows_T: Tensor = (count_T - before_T) * is_counted_T + _PADDING
        return rows_T


@register_encoder("mpnet")
class MPNetModel(RobertaModel):
    """MPNet, whose attention scores have a bias for the distance of two tokens, the same in all layers.

    Source: Song et al. 2020; Raffel et al. 2020, "T5", 2.1 (the bias); transformers models/mpnet.

    Differs: Padding before a text has no position; in transformers it has none only if its id is 1.
    """

    config_class: ClassVar[type[EncoderConfig]] = MPNetConfig
    embeddings_class: ClassVar[type[BertEmbeddings]] = MPNetEmbeddings
    names = replace(
        RobertaModel.names,
        family="MPNet",
        encoder={
            **renamed(
                BERT,
                {
                    "bert.": "mpnet.",
                    "attention.self.query.": "attention.attn.q.",
                    "attention.self.key.": "attention.attn.k.",
                    "attention.self.value.": "attention.attn.v.",
                    "attention.output.dense.": "attention.attn.o.",
                    "attention.output.LayerNorm.": "attention.LayerNorm.",
                },
            ),
            "bert.relative_attention_bias.weight": ("mpnet.encoder.relative_attention_bias.weight",),
        },
        renamed=pooler_in_classifier("mpnet"),
    )

    def __init__(self, config: EncoderConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, generator=generator)
        self.relative_attention_bias = embedding_table(_NUM_BUCKETS, config.num_attention_heads)
        initialize_weights(self.relative_attention_bias, config.initializer_range, generator)

    def prepare(self, batch: PackedBatch) -> list[Tensor]:
        return [self.attention_bias(group.length) for group in batch.length_groups]

    def attention_bias(self, length: int) -> Tensor:
        """Return the bias of the scores, [N, L, L].

        Source: Raffel et al. 2020, 2.1; transformers models/mpnet/modeling_mpnet.py, `relative_position_bucket`.
        """
        device = self.relative_attention_bias.weight.device
        place_L = torch.arange(length, device=device)
        # of each distance from a query to a key, positive to the right
        distances = torch.arange(1 - length, length, device=device)
        starts = torch.tensor(_BUCKET_STARTS, device=device)
        bucket_of_distance = (distances.abs()[:, None] >= starts).sum(1)
        bucket_of_distance = bucket_of_distance + (len(_BUCKET_STARTS) + 1) * (distances > 0)
        buckets_LL = bucket_of_distance[place_L - place_L[:, None] + length - 1]
        bias_NLL: Tensor = self.relative_attention_bias(buckets_LL).permute(2, 0, 1)
        return bias_NLL
