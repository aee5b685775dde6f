"""The XLM-RoBERTa encoder: RoBERTa for 100 languages, with a vocabulary of its own."""

from dataclasses import dataclass, replace
from typing import ClassVar

from cloze.models.encoder import register_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.roberta import RobertaConfig, RobertaModel


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
