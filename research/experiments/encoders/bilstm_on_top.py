"""An encoder with a BiLSTM on top, which gives a causal encoder context from both sides.

Shapes: T tokens in the packed batch, B sequences, D hidden: half of it for each direction of the BiLSTM.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cloze.data.batch import PackedBatch
from cloze.models.bert import BertConfig, BertModel
from cloze.models.encoder import Encoder, EncoderOutput, register_encoder
from cloze.models.encoder_config import EncoderConfig

_MODEL_TYPE = "bilstm-on-bert"


@dataclass(frozen=True, kw_only=True)
class BiLSTMOnBertConfig(BertConfig):
    """The architecture of the encoder; the BiLSTM has the same width."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size % 2:
            what = f"hidden_size = {self.hidden_size} is odd"
            raise ValueError(f"{what}: the two directions of a BiLSTM need an even size")

    def to_json(self) -> dict[str, Any]:
        """Return the table of config.json, with one model type for both directions of attention."""
        return {**super().to_json(), "model_type": _MODEL_TYPE}


@register_encoder(_MODEL_TYPE)
class BiLSTMOnBert(BertModel):
    """An encoder with a BiLSTM over its last layer; fine-tuning trains both.

    Source:
        Devlin et al. 2019, 5.1 ("we added a randomly initialized BiLSTM on top").

    Differs:
        The paper does not give its size: here it has two layers, as in table 7, and the width of the encoder. A
        sequence is pooled from the position at which each direction has read all of it.
    """

    config_class: ClassVar[type[EncoderConfig]] = BiLSTMOnBertConfig
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
    def is_causal(self) -> bool:
        """Return False: the BiLSTM reads in both directions."""
        return False

    @classmethod
    def of(cls, bert: Encoder, *, generator: torch.Generator | None = None) -> "BiLSTMOnBert":
        """Return an encoder with a new BiLSTM on top."""
        model = cls(BiLSTMOnBertConfig(**asdict(bert.config)), generator=generator)
        model.load_state_dict({**model.state_dict(), **bert.state_dict()})
        return model

    def encode(self, batch: PackedBatch, *, output_hidden_states: bool = False) -> EncoderOutput:
        """Encode packed sequences, as `BertModel` does, with the BiLSTM as the last layer."""
        below = super().encode(batch, output_hidden_states=output_hidden_states)
        # not all devices have LSTMs of other formats
        with torch.autocast(below.sequence_output.device.type, enabled=False):
            read_TD = self._read(below.sequence_output.float(), batch)
        forth_TD, back_TD = read_TD.chunk(2, -1)
        starts, ends = batch.cu_seqlens[:-1], batch.cu_seqlens[1:] - 1
        ends_BD = torch.cat([forth_TD.index_select(0, ends), back_TD.index_select(0, starts)], -1)
        hidden_states = (*below.hidden_states[:-1], read_TD) if output_hidden_states else ()
        return EncoderOutput(read_TD, self.pooler(ends_BD), hidden_states)

    def _read(self, hidden_TD: Tensor, batch: PackedBatch) -> Tensor:
        """Run the BiLSTM on groups of equal length: for mixed lengths torch slices every step, in both directions."""
        groups = (
            hidden_TD[run.start : run.end].view(run.count, run.length, -1) for run in batch.length_groups
        )
        return torch.cat([self.lstm(group)[0].flatten(0, 1) for group in groups])
