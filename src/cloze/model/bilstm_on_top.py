"""An encoder with a BiLSTM on top, which lets what looks one way see both sides after all.

Shapes: T tokens in the packed batch, B sequences, D hidden: half of it is each direction's of the BiLSTM.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor, nn

from cloze.model.bert import BertConfig, BertModel, EncoderOutput, Packed
from cloze.model.registry import register_encoder


@dataclass(frozen=True, kw_only=True, slots=True)
class BiLSTMOnBertConfig(BertConfig):
    """The architecture of the encoder; the BiLSTM is as wide."""

    def __post_init__(self) -> None:
        BertConfig.__post_init__(self)  # super() does not find it: slots make the class anew
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size = {self.hidden_size} is not that of a BiLSTM's two directions")

    @classmethod
    def on(cls, encoder: BertConfig) -> "BiLSTMOnBertConfig":
        """Return that of an encoder with a BiLSTM on top."""
        return cls(**{field.name: getattr(encoder, field.name) for field in fields(BertConfig)})


@register_encoder("bilstm-on-bert")
class BiLSTMOnBert(BertModel):
    """The encoder, whose last layer a BiLSTM reads; all of it learns in fine-tuning.

    Source:
        Devlin et al. 2019, 5.1 ("we added a randomly initialized BiLSTM on top").

    Differs:
        The paper does not say how large it is: here it has two layers, as that of table 7, and is as wide as the
        encoder. A sequence is pooled from where each direction has read all of it.
    """

    config_class: ClassVar[type[BertConfig]] = BiLSTMOnBertConfig
    num_lstm_layers = 2

    def __init__(self, config: BiLSTMOnBertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__(config, generator=generator)
        size = config.hidden_size // 2
        self.lstm = nn.LSTM(
            config.hidden_size, size, self.num_lstm_layers, batch_first=True, bidirectional=True
        )
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -(size**-0.5), size**-0.5, generator=generator)

    @property
    def cls_sees_text(self) -> bool:
        """True: the BiLSTM has read it."""
        return True

    @classmethod
    def of(cls, bert: BertModel, *, generator: torch.Generator | None = None) -> "BiLSTMOnBert":
        """Return an encoder with a new BiLSTM on top."""
        model = cls(BiLSTMOnBertConfig.on(bert.config), generator=generator)
        model.load_state_dict({**model.state_dict(), **bert.state_dict()})
        return model

    def forward_packed(self, packed: Packed, *, keep_hidden_states: bool = False) -> EncoderOutput:
        """Encode sequences that lie end to end; as `BertModel` does, with the BiLSTM's as the last layer."""
        below = super().forward_packed(packed, keep_hidden_states=keep_hidden_states)
        # LSTMs of other formats are not everywhere
        with torch.autocast(below.sequence_output.device.type, enabled=False):
            read_TD = self._read(below.sequence_output.float(), packed)
        forth_TD, back_TD = read_TD.chunk(2, -1)
        ends_BD = torch.cat(
            [
                forth_TD.index_select(0, packed.cu_seqlens[1:] - 1),
                back_TD.index_select(0, packed.cu_seqlens[:-1]),
            ],
            -1,
        )
        hidden_states = (*below.hidden_states[:-1], read_TD) if keep_hidden_states else ()
        return EncoderOutput(read_TD, self.pooler(ends_BD).tanh(), hidden_states)

    def _read(self, hidden_TD: Tensor, packed: Packed) -> Tensor:
        """Read sequences of equal length together: of unequal ones torch cuts each step out of all, forth and back."""
        return torch.cat(
            [
                self.lstm(hidden_TD[run.start : run.end].view(run.count, run.length, -1))[0].flatten(0, 1)
                for run in packed.runs
            ]
        )
