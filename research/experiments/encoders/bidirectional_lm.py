"""Two encoders whose vectors are concatenated, one attending to the left and one to the right, as ELMo's two models do.

Shapes: T tokens in the packed batch, B sequences, D hidden: half of it is each encoder's.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch

from cloze.choices import AttendsTo
from cloze.data.batch import PackedBatch
from cloze.errors import InputError
from cloze.models.bert import BERT, BertConfig, BertModel
from cloze.models.encoder import Encoder, EncoderOutput, HiddenMatrix, register_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.weight_mapping import HuggingFaceNames, renamed

_WIDTHS = ("hidden_size", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, kw_only=True)
class BidirectionalLMConfig(BertConfig):
    """The architecture of both encoders, with the sum of their widths."""

    def _check(self) -> None:
        super()._check()
        for name in _WIDTHS:
            if (width := getattr(self, name)) % 2:
                raise ValueError(f"{name} = {width} is odd: two equal encoders need an even size")
        if self.attends_to != "all":
            raise ValueError("attends_to must be all: one encoder attends to the left, one to the right")

    def half(self, attends_to: AttendsTo) -> BertConfig:
        """Return the architecture of one encoder."""
        halved = {name: getattr(self, name) // 2 for name in _WIDTHS}
        return BertConfig(**{**asdict(self), **halved, "attends_to": attends_to})

    @classmethod
    def doubled(cls, half: EncoderConfig) -> "BidirectionalLMConfig":
        """Return the architecture of two equal encoders."""
        widths = {name: 2 * getattr(half, name) for name in _WIDTHS}
        return cls(**{**asdict(half), **widths, "attends_to": "all"})


@register_encoder("two-way-bert")
class BidirectionalLM(Encoder):
    """Two encoders with concatenated vectors; fine-tuning trains both.

    Source:
        Devlin et al. 2019, 5.1 ("train separate LTR and RTL models and represent each token as the concatenation of
        the two models, as ELMo does"), which the paper mentions without results.
    """

    config_class: ClassVar[type[EncoderConfig]] = BidirectionalLMConfig
    names = HuggingFaceNames(
        encoder={
            name.replace("bert.", prefix, 1): external
            for prefix in ("bert.left.", "bert.right.")
            for name, external in renamed(BERT, {"bert.": prefix}).items()
        }
    )
    architecture = "TwoWayBert"  # in config.json

    def __init__(self, config: BidirectionalLMConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.left: Encoder = BertModel(config.half("left"), generator=generator)
        self.right: Encoder = BertModel(config.half("right"), generator=generator)

    @classmethod
    def of(cls, left: Encoder, right: Encoder) -> "BidirectionalLM":
        """Combine an encoder that attends to the left with one that attends to the right."""
        config = BidirectionalLMConfig.doubled(left.config)
        if (left.config, right.config) != (config.half("left"), config.half("right")):
            what = "must be alike, but attend to the left and to the right"
            raise InputError(what, where="two concatenated encoders")
        with torch.device("meta"):  # shapes only: the weights are those of the two
            both = cls(config)
        both.left, both.right = left, right
        return both

    def hidden_matrices(self) -> list[HiddenMatrix]:
        """Return the matrices of the layers of both encoders."""
        return [*self.left.hidden_matrices(), *self.right.hidden_matrices()]

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode packed sequences, as `BertModel` does."""
        left, right = (
            encoder(batch, output_hidden_states=output_hidden_states) for encoder in (self.left, self.right)
        )
        return EncoderOutput(
            torch.cat([left.sequence_output, right.sequence_output], -1),
            torch.cat([left.pooled_output, right.pooled_output], -1),
            tuple(torch.cat(pair, -1) for pair in zip(left.hidden_states, right.hidden_states, strict=True)),
        )
