"""The RoBERTa encoder: BERT whose positions are counted from the row after that of the padding token."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from cloze.data.batch import PackedBatch
from cloze.models.bert import BertConfig, BertEmbeddings, BertModel
from cloze.models.encoder import EncoderOutput, register_encoder
from cloze.models.weight_mapping import BERT, HEADS, Entries, HuggingFaceNames, dense

_POSITIONS = "max_position_embeddings"


@dataclass(frozen=True, kw_only=True, slots=True)
class RobertaConfig(BertConfig):
    """The fields of BERT, and the id of the padding token.

    `max_position_embeddings` is the longest sequence; config.json has the rows of the table, `pad_token_id` + 1 more.
    """

    pad_token_id: int = 1
    """Positions are counted from the next row on; at least 1."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # super() fails: slots create a second class
        if self.attends_to != "all":
            raise ValueError(f"attends_to = {self.attends_to}: RoBERTa attends to all tokens")

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields in config.json, without checking them."""
        # not super(): slots create a second class
        values = {field.name: table[field.name] for field in fields(cls) if field.name in table}
        padding = values.get("pad_token_id", 1)
        if isinstance(values.get(_POSITIONS), int) and isinstance(padding, int):
            values[_POSITIONS] -= padding + 1
        return values

    def to_json(self) -> dict[str, Any]:
        """Return the table of config.json."""
        rows = getattr(self, _POSITIONS) + self.pad_token_id + 1
        return {field.name: getattr(self, field.name) for field in fields(self)} | {_POSITIONS: rows}


ROBERTA: Entries = tuple(
    (name, tuple(external.replace("bert.", "roberta.", 1) for external in names)) for name, names in BERT
)
"""The weights of `RobertaModel`."""

_MASKED_LM: Entries = (
    *dense("masked_lm.dense", "lm_head.dense"),
    *dense("masked_lm.layer_norm", "lm_head.layer_norm"),
    ("masked_lm.bias", ("lm_head.bias",)),
)


class RobertaEmbeddings(BertEmbeddings):
    """The sum of token, segment and position embeddings, normalized."""

    @classmethod
    def position_offset(cls, config: BertConfig) -> int:
        """Return the row of the first position."""
        assert isinstance(config, RobertaConfig)
        return config.pad_token_id + 1


@register_encoder("roberta")
class RobertaModel(BertModel):
    """RoBERTa with a pooler: in files of classifiers it is the first layer of their head.

    Source:
        Liu et al. 2019; transformers models/roberta.

    Differs:
        Positions are counted by the attention mask, not by the padding token, so that one within a text has a
        position like any other token. A model without a second segment takes
        the first for both texts of a pair.
    """

    config_class: ClassVar[type[BertConfig]] = RobertaConfig
    embeddings_class: ClassVar[type[BertEmbeddings]] = RobertaEmbeddings
    masked_lm_activation = "gelu"
    counts_padding = False
    names = HuggingFaceNames(
        family="Roberta",
        prefix="roberta.",
        heads=(*_MASKED_LM, *(entry for entry in HEADS if not entry[0].startswith("masked_lm."))),
        copies=MappingProxyType(
            {
                "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
                "lm_head.decoder.bias": "lm_head.bias",
            }
        ),
        renamed=MappingProxyType(
            {
                "BertForSequenceClassification": {
                    "roberta.pooler.dense.": "classifier.dense.",
                    "classifier.": "classifier.out_proj.",
                }
            }
        ),
    )

    @classmethod
    def weight_mapping(cls) -> Entries:
        """Return the names of the weights here and in model.safetensors."""
        return ROBERTA

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode a packed batch; raises as `BertModel.encode`."""
        if self.config.type_vocab_size == 1:
            batch = replace(batch, token_type_ids=torch.zeros_like(batch.token_type_ids))
        return super().encode(batch, output_hidden_states=output_hidden_states)
