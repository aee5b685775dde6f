"""The DistilBERT encoder: BERT without segment embeddings, whose pooler belongs to the classifiers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

from cloze.models.bert import BERT, BertModel, Pooler
from cloze.models.encoder import register_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.weight_mapping import HEADS, HuggingFaceNames, dense, renamed


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(EncoderConfig):
    """The fields of BERT; `type_vocab_size` and `layer_norm_eps` are not in config.json, and keep their defaults."""

    has_token_types: ClassVar[bool] = False
    json_names: ClassVar[Mapping[str, str | None]] = MappingProxyType(
        {
            "hidden_size": "dim",
            "num_hidden_layers": "n_layers",
            "num_attention_heads": "n_heads",
            "intermediate_size": "hidden_dim",
            "hidden_act": "activation",
            "hidden_dropout_prob": "dropout",
            "attention_probs_dropout_prob": "attention_dropout",
            "type_vocab_size": None,
            "layer_norm_eps": None,
        }
    )

    def _check(self) -> None:
        super()._check()
        if self.layer_norm_eps != EncoderConfig.layer_norm_eps:
            raise ValueError(
                f"layer_norm_eps = {self.layer_norm_eps}: DistilBERT has {EncoderConfig.layer_norm_eps}"
            )

    @classmethod
    def of_size(cls, num_hidden_layers: int, hidden_size: int) -> Self:
        return super().of_size(num_hidden_layers // 2, hidden_size)


class DistilBertPooler(Pooler):
    """The dense layer with ReLU that classifiers begin with."""

    activation = "relu"
    linear_at = 3.0


@register_encoder("distilbert")
class DistilBertModel(BertModel):
    """DistilBERT. Its pooler is the dense layer with ReLU with which its classifiers start.

    Source: Sanh et al. 2019; transformers models/distilbert.
    """

    config_class: ClassVar[type[EncoderConfig]] = DistilBertConfig
    pooler_class: ClassVar[type[Pooler]] = DistilBertPooler
    trains_on_pairs = False
    names = HuggingFaceNames(
        family="DistilBert",
        encoder=renamed(
            BERT,
            {
                "bert.encoder.": "distilbert.transformer.",
                "bert.pooler.dense.": "pre_classifier.",
                "bert.": "distilbert.",
                "attention.self.query.": "attention.q_lin.",
                "attention.self.key.": "attention.k_lin.",
                "attention.self.value.": "attention.v_lin.",
                "attention.output.dense.": "attention.out_lin.",
                "attention.output.LayerNorm.": "sa_layer_norm.",
                "intermediate.dense.": "ffn.lin1.",
                "}.output.dense.": "}.ffn.lin2.",
                "output.LayerNorm.": "output_layer_norm.",
            },
        ),
        heads={
            **HEADS,
            **dense("masked_lm.dense", "vocab_transform"),
            **dense("masked_lm.layer_norm", "vocab_layer_norm"),
            "masked_lm.bias": ("vocab_projector.bias",),
        },
        decoder="vocab_projector",
    )
