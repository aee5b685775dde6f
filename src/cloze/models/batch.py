"""Batches on a device: from NumPy arrays, and from padded tensors and back.

Shapes: T tokens in the packed batch, B sequences, L columns of a padded batch, D hidden.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from cloze.data.batch import LengthGroup, PackedBatch, group_lengths
from cloze.errors import InputError
from cloze.models.encoder_config import EncoderConfig

BatchT = TypeVar("BatchT", bound=PackedBatch)

MASKED = -10_000.0
"""Added to the scores of padding: Google's number; -inf would turn a row of padding into NaN."""


def to_device(batch: BatchT, device: torch.device | str = "cpu") -> BatchT:
    """Return a batch whose arrays are tensors on a device, without waiting for the copy."""
    return _with_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def pin_memory(batch: BatchT) -> BatchT:
    """Return a batch whose arrays are tensors in pinned memory, from which `to_device` copies to a GPU in parallel."""
    return _with_tensors(batch, Tensor.pin_memory)


def _with_tensors(batch: BatchT, function: Callable[[Tensor], Tensor]) -> BatchT:
    tensors: dict[str, Any] = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        if isinstance(value, np.ndarray | Tensor):
            tensors[field.name] = function(torch.as_tensor(value))
    return dataclasses.replace(batch, **tensors)


@dataclass(frozen=True, slots=True)
class Padding:
    """Where the tokens of a packed batch were in the padded one."""

    num_rows: int
    num_columns: int
    row_of_sequence: Tensor
    cell_of_token: Tensor

    def unpack_tokens(self, values: Tensor) -> Tensor:
        """Return [T, …] as [B, L, …], with zeros at the padding."""
        cells = values.new_zeros(self.num_rows * self.num_columns, *values.shape[1:])
        return cells.index_copy(0, self.cell_of_token, values).view(
            self.num_rows, self.num_columns, *values.shape[1:]
        )

    def unpack_sequences(self, values_BD: Tensor) -> Tensor:
        """Return [B, D] in the order of the rows."""
        return torch.empty_like(values_BD).index_copy(0, self.row_of_sequence, values_BD)


def pack_padded(
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    *,
    counts_padding: bool = True,
) -> tuple[PackedBatch, Padding]:
    """Pack a padded batch, longest sequence first.

    Shapes: input_ids, attention_mask, token_type_ids [B, L].

    Args:
        counts_padding: whether a token's position is its column, or counted among the real tokens of its row.
    """
    if input_ids.dim() != 2 or input_ids.is_floating_point() or not input_ids.numel():
        what = f"{input_ids.dtype} of shape {list(input_ids.shape)}, not integers [batch, length]"
        raise InputError(what, where="input_ids")
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids, dtype=torch.bool)
    if token_type_ids is None:
        token_type_ids = torch.zeros_like(input_ids)
    for name, tensor in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
        if tensor.shape != input_ids.shape:
            raise InputError(f"shape {list(tensor.shape)}, input_ids {list(input_ids.shape)}", where=name)
    if attention_mask.is_floating_point() or not ((attention_mask == 0) | (attention_mask == 1)).all():
        what = f"{attention_mask.dtype}, not bool, nor integers of 0 and 1"
        raise InputError(what, where="attention_mask", remedy="Give 1 for a real token and 0 for padding")
    attention_mask = attention_mask.bool()

    num_rows, num_columns = input_ids.shape
    lengths_B = attention_mask.sum(1)
    row_of_sequence = lengths_B.argsort(descending=True, stable=True)
    lengths = lengths_B[row_of_sequence].tolist()
    if not lengths[-1]:
        raise InputError(f"row {int(row_of_sequence[-1])} has no real token", where="attention_mask")
    row, column = attention_mask[row_of_sequence].nonzero(as_tuple=True)
    cell_of_token = row_of_sequence[row] * num_columns + column
    position_ids = column if counts_padding else (attention_mask.cumsum(1) - 1).flatten()[cell_of_token]
    batch = PackedBatch(
        input_ids.flatten()[cell_of_token].long(),
        token_type_ids.flatten()[cell_of_token].long(),
        position_ids,
        torch.nn.functional.pad(lengths_B[row_of_sequence].cumsum(0), (1, 0)).int(),
        group_lengths(lengths),
    )
    return batch, Padding(num_rows, num_columns, row_of_sequence, cell_of_token)


@dataclass(frozen=True, slots=True)
class PaddedBatch(PackedBatch):
    """A batch with its padding, for exporters: no operation depends on the values or the lengths.

    Shapes: input_ids, token_type_ids, is_real [B, L]; position_ids [L] or [B, L]. Where a packed batch has [T, ...],
        this one has [B, L, ...].
    """

    is_real: Tensor

    @classmethod
    def of(
        cls, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor, *, counts_padding: bool
    ) -> "PaddedBatch":
        """Return the batch of padded inputs, [B, L]; `counts_padding` is as in `pack_padded`."""
        rows, columns = input_ids.shape
        positions = torch.arange(columns) if counts_padding else attention_mask.cumsum(1) - 1
        groups = (LengthGroup(0, rows, columns),)
        return cls(input_ids, token_type_ids, positions, None, groups, attention_mask.bool())

    def first_tokens(self, hidden_BLD: Tensor) -> Tensor:
        """Return the vector of the first real token of each row, [B, D]: padding may be before it."""
        first_B11 = self.is_real.int().argmax(1)[:, None, None]
        return hidden_BLD.gather(1, first_B11.expand(-1, 1, hidden_BLD.shape[-1])).squeeze(1)


def check_ids(batch: PackedBatch, config: EncoderConfig) -> None:
    """Refuse a batch that has no embedding; on a GPU only its lengths are checked, since reading ids would wait."""
    if isinstance(batch, PaddedBatch):  # an exporter traces it without values
        return
    if batch.max_seqlen > config.max_position_embeddings:
        what = f"{batch.max_seqlen} tokens, the model takes {config.max_position_embeddings}"
        raise InputError(what, where="input_ids", remedy="Truncate or split the text")
    if batch.input_ids.device.type != "cpu":
        return
    tables = (
        ("input_ids", batch.input_ids, config.vocab_size),
        ("token_type_ids", batch.token_type_ids, max(config.type_vocab_size, 2)),
        ("position_ids", batch.position_ids, config.max_position_embeddings),
    )
    for name, ids_T, num_rows in tables:
        lowest, highest = (int(bound) for bound in ids_T.aminmax())
        if lowest < 0 or highest >= num_rows:
            wrong = lowest if lowest < 0 else highest
            raise InputError(f"{wrong} is not in 0..{num_rows - 1}", where=name)
