"""Two encoders side by side, one that sees the left and one that sees the right, as ELMo's two language models stand.

Shapes: T tokens in the packed batch, B sequences, D hidden: half of it is each encoder's.
"""

from dataclasses import dataclass, fields
from typing import ClassVar, NoReturn

import torch
from torch import nn

from cloze.errors import InputError
from cloze.model.attention import AttendsTo
from cloze.model.bert import BertConfig, BertModel, EncoderOutput, Packed
from cloze.model.registry import register_encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class TwoWayBertConfig(BertConfig):
    """The architecture of both encoders, with their widths added up."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # super() does not find it: slots make the class anew
        for name in ("hidden_size", "num_attention_heads", "intermediate_size"):
            if getattr(self, name) % 2:
                raise ValueError(f"{name} = {getattr(self, name)} is not that of two equal encoders")
        if self.attends_to != "all":
            raise ValueError("attends_to: one of the two encoders sees the left, one the right")

    def half(self, attends_to: AttendsTo) -> BertConfig:
        """Return the architecture of one of the two."""
        halved = {
            name: getattr(self, name) // 2
            for name in ("hidden_size", "num_attention_heads", "intermediate_size")
        }
        values = {field.name: getattr(self, field.name) for field in fields(BertConfig)}
        return BertConfig(**{**values, **halved, "attends_to": attends_to})

    @classmethod
    def doubled(cls, half: BertConfig) -> "TwoWayBertConfig":
        """Return that of two encoders of one architecture."""
        values = {field.name: getattr(half, field.name) for field in fields(BertConfig)}
        widths = {
            name: 2 * values[name] for name in ("hidden_size", "num_attention_heads", "intermediate_size")
        }
        return cls(**{**values, **widths, "attends_to": "all"})


@register_encoder("two-way-bert")
class TwoWayBert(BertModel):
    """Every vector of one encoder beside that of the other; both learn in fine-tuning.

    Source:
        Devlin et al. 2019, 5.1 ("train separate LTR and RTL models and represent each token as the concatenation of
        the two models, as ELMo does"), which the paper leaves as a thought.
    """

    config_class: ClassVar[type[BertConfig]] = TwoWayBertConfig

    def __init__(self, config: TwoWayBertConfig, *, generator: torch.Generator | None = None) -> None:
        nn.Module.__init__(self)  # not BertModel's: its layers are in the two
        self.config = config
        self.left = BertModel(config.half("left"), generator=generator)
        self.right = BertModel(config.half("right"), generator=generator)

    @classmethod
    def of(cls, left: BertModel, right: BertModel) -> "TwoWayBert":
        """Return two encoders side by side.

        Raises:
            InputError: they are not of one architecture, or do not look left and right.
        """
        config = TwoWayBertConfig.doubled(left.config)
        halves = {"first": (left.config, config.half("left")), "second": (right.config, config.half("right"))}
        for which, (found, wanted) in halves.items():
            if found != wanted:
                what = f"the {which} encoder attends to {found.attends_to}, wanted {wanted.attends_to}"
                if found.attends_to == wanted.attends_to:
                    what = f"the {which} encoder has another architecture than the first"
                raise InputError(what, where="two encoders side by side")
        with torch.device("meta"):  # shapes only: the two bring the values
            both = cls(config)
        both.left, both.right = left, right
        return both

    @property
    def embeddings(self) -> NoReturn:  # type: ignore[override]
        """Refuse to show one table of words.

        Raises:
            InputError: always.
        """
        what = "they have a table of words each, where one is asked for"
        raise InputError(what, where="two encoders side by side", remedy="Take a layer of theirs, from 1 on")

    def forward_packed(self, packed: Packed, *, keep_hidden_states: bool = False) -> EncoderOutput:
        """Encode sequences that lie end to end; as `BertModel` does."""
        left, right = (
            encoder.forward_packed(packed, keep_hidden_states=keep_hidden_states)
            for encoder in (self.left, self.right)
        )
        return EncoderOutput(
            torch.cat([left.sequence_output, right.sequence_output], -1),
            torch.cat([left.pooled_output, right.pooled_output], -1),
            tuple(torch.cat(pair, -1) for pair in zip(left.hidden_states, right.hidden_states, strict=True)),
        )
