"""The family of tagging tasks whose encoder does not learn: what it says of the words is computed once, and kept.

Shapes: W words, L layers taken, D hidden.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cloze.artifacts import disk_errors
from cloze.model.bert import BertModel
from cloze.model.bilstm import (
    BertBiLSTMForTokenClassification,
    FrozenLayers,
    PackedWords,
    count_states,
    frozen_states,
)
from cloze.progress import Progress
from cloze.tasks.batches import by_length
from cloze.tasks.tagging import Context, Tagging
from cloze.tasks.tagging_features import TaggingBatch, TaggingFeature, pack
from cloze.tasks.task import Array


@dataclass(frozen=True, eq=False, slots=True)
class FrozenFeature(TaggingFeature):
    """A feature with what the encoder says of its words, [W, L, D]."""

    states: Array


@dataclass(frozen=True, kw_only=True)
class FeatureTagging(Tagging):
    """BERT as ELMo was used: a BiLSTM on the layers of a frozen encoder (Devlin et al. 2019, 5.3 and table 7).

    The encoder's vectors are kept in a temporary file as large as they are: four layers of BERT-Base take 2.5 GB for
    CoNLL-2003. Training then takes no more than the BiLSTM does.

    The paper names neither rate, epochs nor batch size of this.
    """

    encoder_learns: ClassVar[bool] = False
    learned_settings: ClassVar[tuple[str, ...]] = (*Tagging.learned_settings, "layers", "lstm_size")
    defaults: ClassVar[tuple[str, ...]] = (
        "max_seq_length=512",
        "epochs=10",
        "optimizer.learning_rate=1e-3",
        "optimizer.bias_correction=true",
    )

    context: Context = "document"
    layers: FrozenLayers = "concat-last-four"
    lstm_size: int = 768
    """In each direction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lstm_size < 1:
            raise ValueError(f"lstm_size {self.lstm_size} is not positive")

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the encoder, frozen, with a BiLSTM on it."""
        return BertBiLSTMForTokenClassification(
            bert,
            num_labels=len(self.labels),
            layers=self.layers,
            lstm_size=self.lstm_size,
            generator=generator,
        )

    def prepared(
        self,
        features: list[list[TaggingFeature]],
        encoder: Callable[[], BertModel],
        *,
        max_tokens: int,
        progress: Progress,
    ) -> list[list[TaggingFeature]]:
        """Return features that know what the encoder says of their words: parts of a memory-mapped file."""
        bert = encoder()
        device = next(bert.parameters()).device
        flat = [feature for own in features for feature in own]
        ends = np.cumsum([len(feature.positions) for feature in flat])
        shape = (int(ends[-1]), count_states(bert.config, self.layers), bert.config.hidden_size)
        bytes_of_word = 4 * math.prod(shape[1:])
        # its name goes with the block, its space with the last feature; written through the file, since what is
        # written into the map of a full disk's file is the end of the process
        with (
            disk_errors(Path(tempfile.gettempdir())),
            tempfile.TemporaryFile(prefix="cloze-") as file,
            progress.bar("encoding", total=len(flat), unit="sequences") as bar,
        ):
            for indices in by_length([feature.num_tokens for feature in flat], max_tokens):
                batch = self.batch([flat[i] for i in indices]).to(device)
                assert isinstance(batch.packed, PackedWords)
                found = frozen_states(bert, batch.packed, self.layers).cpu().numpy()
                for i, own in zip(indices, np.split(found, np.cumsum(batch.num_words)[:-1]), strict=True):
                    file.seek((ends[i] - len(own)) * bytes_of_word)
                    file.write(own.tobytes())
                bar.advance(len(indices))
            file.flush()
            states_WLD = np.memmap(file, np.float32, "r", shape=shape)
        kept: Iterator[TaggingFeature] = (
            FrozenFeature(feature.input_ids, feature.positions, feature.targets, states)
            for feature, states in zip(flat, np.split(states_WLD, ends[:-1]), strict=True)
        )
        return [[next(kept) for _ in own] for own in features]

    def batch(self, features: Sequence[TaggingFeature]) -> TaggingBatch:
        """Pack sequences in the order given, with what the encoder says where that is known."""
        batch = pack(features)
        known = [feature.states for feature in features if isinstance(feature, FrozenFeature)]
        words = PackedWords(
            batch.packed.input_ids,
            batch.packed.token_type_ids,
            batch.packed.position_ids,
            batch.packed.cu_seqlens,
            batch.packed.runs,
            batch.positions,
            batch.num_words,
            torch.from_numpy(np.concatenate(known)) if known else None,
        )
        return replace(batch, packed=words)

    def word_logits(self, logits: Tensor, batch: TaggingBatch) -> Tensor:
        """Return the logits as they are: this head speaks of words alone."""
        return logits
