"""The RoBERTa encoder, BERT whose positions start after the row of the padding token; XLM-RoBERTa."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

from cloze.config import Range
from cloze.models.bert import BERT, BertModel
from cloze.models.encoder import register_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.weight_mapping import HEADS, HuggingFaceNames, dense, renamed


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(EncoderConfig):
    """The fields of BERT, and the id of the padding token."""

    counts_padding: ClassVar[bool] = False

    pad_token_id: Annotated[int, Range("[0, 10000000]")] = 1
    """The first position uses the row after the padding row."""

    @property
    def first_position(self) -> int:
        return self.pad_token_id + 1

    def with_padding(self, pad_id: int) -> Self:
        return replace(self, pad_token_id=pad_id)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> dict[str, Any]:
        values = super().from_json(table)
        rows, padding = values.get("max_position_embeddings"), values.get("pad_token_id", 1)
        if isinstance(rows, int) and isinstance(padding, int):
            values["max_position_embeddings"] = rows - padding - 1
        return values

    def to_json(self) -> dict[str, Any]:
        rows = self.max_position_embeddings + self.first_position
        return {**super().to_json(), "max_position_embeddings": rows}


def pooler_in_classifier(prefix: str) -> Mapping[str, Mapping[str, str]]:
    """Return the names of a classifier whose pooler is the first layer of its head."""
    names = {f"{prefix}.pooler.dense.": "classifier.dense.", "classifier.": "classifier.out_proj."}
    return MappingProxyType({"BertForSequenceClassification": names})


@register_encoder("roberta")
class RobertaModel(BertModel):
    """RoBERTa with a pooler: in files of classifiers it is the first layer of their head.

    Source: Liu et al. 2019; transformers models/roberta.

    Differs: Positions are counted by the attention mask, not by the padding token, so that one within a text has a
        position like any other token.
    """

    config_class: ClassVar[type[EncoderConfig]] = RobertaConfig
    masked_lm_activation = "gelu"
    trains_on_pairs = False
    names = HuggingFaceNames(
        family="Roberta",
        encoder=renamed(BERT, {"bert.": "roberta."}),
        heads={
            **HEADS,
            **dense("masked_lm.dense", "lm_head.dense"),
            **dense("masked_lm.layer_norm", "lm_head.layer_norm"),
            "masked_lm.bias": ("lm_head.bias",),
        },
        decoder="lm_head.decoder",
        special_ids=MappingProxyType({"bos_token_id": "cls", "eos_token_id": "sep"}),
        renamed=pooler_in_classifier("roberta"),
    )


@dataclass(frozen=True, kw_only=True)
class XLMRobertaConfig(RobertaConfig):
    """The fields of RoBERTa."""


@register_encoder("xlm-roberta")
class XLMRobertaModel(RobertaModel):
    """RoBERTa with another vocabulary; its weights have the same names.

    Source: Conneau et al. 2020; transformers models/xlm_roberta.
    """

    config_class: ClassVar[type[EncoderConfig]] = XLMRobertaConfig
    names = replace(RobertaModel.names, family="XLMRoberta")
