"""The DistilBERT encoder: BERT without segment embeddings, whose pooler belongs to the classifiers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from cloze.models.bert import BertConfig, BertEmbeddings, BertModel
from cloze.models.encoder import register_encoder
from cloze.models.weight_mapping import HEADS, Entries, HuggingFaceNames, dense


@dataclass(frozen=True, kw_only=True, slots=True)
class DistilBertConfig(BertConfig):
    """The fields of BERT; `type_vocab_size` and `layer_norm_eps` are not in config.json, and keep their defaults."""

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
            "attends_to": None,
        }
    )

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # super() fails: slots create a second class
        for name in ("layer_norm_eps", "attends_to"):
            if getattr(self, name) != getattr(BertConfig(), name):
                raise ValueError(
                    f"{name} = {getattr(self, name)}: DistilBERT has {getattr(BertConfig(), name)}"
                )


_EMBEDDINGS, _LAYER = "distilbert.embeddings", "distilbert.transformer.layer.{i}"

DISTILBERT: Entries = (
    ("bert.embeddings.word_embeddings.weight", (f"{_EMBEDDINGS}.word_embeddings.weight",)),
    ("bert.embeddings.position_embeddings.weight", (f"{_EMBEDDINGS}.position_embeddings.weight",)),
    *dense("bert.embeddings.layer_norm", f"{_EMBEDDINGS}.LayerNorm"),
    *(
        (
            f"bert.layers.{{i}}.query_key_value.{part}",
            tuple(f"{_LAYER}.attention.{name}_lin.{part}" for name in ("q", "k", "v")),
        )
        for part in ("weight", "bias")
    ),
    *dense("bert.layers.{i}.attention_output", f"{_LAYER}.attention.out_lin"),
    *dense("bert.layers.{i}.attention_layer_norm", f"{_LAYER}.sa_layer_norm"),
    *dense("bert.layers.{i}.intermediate", f"{_LAYER}.ffn.lin1"),
    *dense("bert.layers.{i}.output", f"{_LAYER}.ffn.lin2"),
    *dense("bert.layers.{i}.output_layer_norm", f"{_LAYER}.output_layer_norm"),
    *dense("bert.pooler", "pre_classifier"),
)
"""The weights of `DistilBertModel`."""

_MASKED_LM: Entries = (
    *dense("masked_lm.dense", "vocab_transform"),
    *dense("masked_lm.layer_norm", "vocab_layer_norm"),
    ("masked_lm.bias", ("vocab_projector.bias",)),
)


class DistilBertEmbeddings(BertEmbeddings):
    """The sum of token and position embeddings, normalized."""

    has_token_types = False


@register_encoder("distilbert")
class DistilBertModel(BertModel):
    """DistilBERT, and the dense layer with ReLU that its classifiers begin with as its pooler.

    Source:
        Sanh et al. 2019; transformers models/distilbert.
    """

    config_class: ClassVar[type[BertConfig]] = DistilBertConfig
    embeddings_class: ClassVar[type[BertEmbeddings]] = DistilBertEmbeddings
    pooler_activation = "Relu"
    names = HuggingFaceNames(
        family="DistilBert",
        prefix="distilbert.",
        bare=("embeddings.", "transformer."),
        heads=(*_MASKED_LM, *(entry for entry in HEADS if not entry[0].startswith("masked_lm."))),
        copies=MappingProxyType({"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}),
    )

    @classmethod
    def weight_mapping(cls) -> Entries:
        """Return the names of the weights here and in model.safetensors."""
        return DISTILBERT
