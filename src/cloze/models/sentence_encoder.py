"""Heads without weights that return vectors of tokens and of texts, from one layer or several.

Shapes: T tokens in the packed batch, B sequences, D width of a vector.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from cloze.choices import Combine, Pooling
from cloze.data.batch import PackedBatch
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForFeatureExtraction
from cloze.models.pooling import pool


class TokenEncoder(BertForFeatureExtraction):
    """A vector for each token.

    Args:
        layers: from 0, the rows of the word-embedding table, to the last; None is the last.
    """

    token_outputs: ClassVar[tuple[str, ...]] = ("token_embeddings",)

    def __init__(
        self, bert: Encoder, *, layers: tuple[int, ...] | None = None, combine: Combine = "sum"
    ) -> None:
        super().__init__(bert)
        self.layers = layers or (bert.config.num_hidden_layers,)
        self.combine = combine

    def forward(self, batch: PackedBatch) -> Tensor:
        if self.layers == (self.config.num_hidden_layers,):
            return super().forward(batch)
        if self.layers == (0,):
            return self._rows(batch)
        hidden_states = self.bert(batch, output_hidden_states=True).hidden_states
        hidden = [hidden_states[layer] if layer else self._rows(batch) for layer in self.layers]
        return torch.cat(hidden, -1) if self.combine == "concat" else torch.stack(hidden).sum(0)

    def _rows(self, batch: PackedBatch) -> Tensor:
        """Return the rows of the word-embedding table, without position or context."""
        rows_TD: Tensor = self.bert.embeddings.word_embeddings(batch.input_ids)
        return rows_TD.float()


class SentenceEncoder(TokenEncoder):
    """A vector for each text, as the files of sentence-transformers describe it.

    Args:
        normalize: scale it to length 1.
        truncate_dim: number of dimensions kept of it, after that; None keeps all.
    """

    token_outputs = ()

    def __init__(
        self,
        bert: Encoder,
        *,
        pooling: Pooling,
        normalize: bool = False,
        truncate_dim: int | None = None,
        layers: tuple[int, ...] | None = None,
        combine: Combine = "sum",
    ) -> None:
        super().__init__(bert, layers=layers, combine=combine)
        self.pooling = pooling
        self.normalize = normalize
        self.truncate_dim = truncate_dim

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return vectors [B, D]."""
        vectors_BD = pool(super().forward(batch), batch, self.pooling)
        vectors_BD = nn.functional.normalize(vectors_BD, dim=-1) if self.normalize else vectors_BD
        return vectors_BD[:, : self.truncate_dim]

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        return {"sentence_embedding": self(batch)}
