"""The form in which every batch reaches the model: tokens end to end, no padding.

Shapes: T tokens in the packed batch, B sequences, L columns of a padded batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from cloze.errors import InputError


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring sequences of equal length: a slice of the packed batch that views as [count, length]."""

    start: int
    count: int
    length: int

    @property
    def end(self) -> int:
        """The token after the last one of the run."""
        return self.start + self.count * self.length


@dataclass(frozen=True, slots=True)
class Packed:
    """Sequences laid end to end, `[CLS] a b [SEP] [CLS] c [SEP]`.

    Shapes:
        input_ids, token_type_ids, position_ids [T] int64; cu_seqlens [B+1] int32, where each sequence begins,
        and T. `runs` says the same as plain integers, so that no device has to be asked for a length.
    """

    input_ids: Tensor
    token_type_ids: Tensor
    position_ids: Tensor
    cu_seqlens: Tensor
    runs: tuple[Run, ...]

    @classmethod
    def from_arrays(
        cls, input_ids: object, token_type_ids: object, position_ids: object, cu_seqlens: object
    ) -> "Packed":
        """Take NumPy arrays or CPU tensors as they are, without copying where the types are right."""
        boundaries = torch.as_tensor(cu_seqlens, dtype=torch.int32)
        return cls(
            torch.as_tensor(input_ids, dtype=torch.int64),
            torch.as_tensor(token_type_ids, dtype=torch.int64),
            torch.as_tensor(position_ids, dtype=torch.int64),
            boundaries,
            runs_of(boundaries.diff().tolist()),
        )

    @classmethod
    def from_sequences(
        cls, input_ids: Sequence[Sequence[int]], token_type_ids: Sequence[Sequence[int]] | None = None
    ) -> "Packed":
        """Pack lists of ids in the order given; without `token_type_ids` everything is segment A.

        Attention is fastest where sequences of equal length are neighbours.
        """
        lengths = torch.tensor([len(ids) for ids in input_ids], dtype=torch.int64)
        if not len(lengths) or not bool(lengths.all()):
            raise InputError("an empty sequence", where="input_ids", remedy="Give every sequence a token")
        ids_T = torch.tensor([i for ids in input_ids for i in ids], dtype=torch.int64)
        types_T = torch.zeros_like(ids_T)
        if token_type_ids is not None:
            if [len(types) for types in token_type_ids] != lengths.tolist():
                raise InputError("differs in length from input_ids", where="token_type_ids")
            types_T = torch.tensor([t for types in token_type_ids for t in types], dtype=torch.int64)
        cu_seqlens = _cumulative(lengths)
        positions_T = torch.arange(len(ids_T)) - cu_seqlens[:-1].long().repeat_interleave(lengths)
        return cls.from_arrays(ids_T, types_T, positions_T, cu_seqlens)

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.runs[-1].end

    @property
    def num_sequences(self) -> int:
        """B."""
        return sum(run.count for run in self.runs)

    @property
    def max_seqlen(self) -> int:
        """The length of the longest sequence."""
        return max(run.length for run in self.runs)

    def to(self, device: torch.device | str) -> "Packed":
        """Copy the tensors to a device, without waiting for it."""
        return Packed(
            self.input_ids.to(device, non_blocking=True),
            self.token_type_ids.to(device, non_blocking=True),
            self.position_ids.to(device, non_blocking=True),
            self.cu_seqlens.to(device, non_blocking=True),
            self.runs,
        )


@dataclass(frozen=True, slots=True)
class Padding:
    """How a padded batch was packed, and the way back."""

    num_rows: int
    num_columns: int
    row_of_sequence: Tensor
    cell_of_token: Tensor

    def unpack_tokens(self, values_TD: Tensor) -> Tensor:
        """Spread [T, D] over [B, L, D], with zeros where the padding was."""
        cells_CD = values_TD.new_zeros(self.num_rows * self.num_columns, values_TD.shape[-1])
        return cells_CD.index_copy(0, self.cell_of_token, values_TD).view(
            self.num_rows, self.num_columns, values_TD.shape[-1]
        )

    def unpack_sequences(self, values_BD: Tensor) -> Tensor:
        """Put [B, D] back in the order of the rows."""
        return torch.empty_like(values_BD).index_copy(0, self.row_of_sequence, values_BD)


def pack_padded(
    input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
) -> tuple[Packed, Padding]:
    """Pack a padded batch, longest sequence first; a token's position is its column.

    Shapes:
        input_ids, attention_mask, token_type_ids [B, L].

    Args:
        attention_mask: bool, True = real; None takes every column as real.
        token_type_ids: 0 or 1; None is segment A throughout.

    Raises:
        InputError: shapes or dtypes that do not fit, or a row without a real token.
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
    if attention_mask.dtype != torch.bool:
        remedy = "Say attention_mask.bool(): True is a real token"
        raise InputError(f"{attention_mask.dtype}, not bool", where="attention_mask", remedy=remedy)

    num_rows, num_columns = input_ids.shape
    lengths_B = attention_mask.sum(1)
    row_of_sequence = lengths_B.argsort(descending=True, stable=True)
    lengths = lengths_B[row_of_sequence].tolist()
    if not lengths[-1]:
        what = f"row {int(row_of_sequence[-1])} has no real token"
        raise InputError(what, where="attention_mask")
    row, position_ids = attention_mask[row_of_sequence].nonzero(as_tuple=True)
    cell_of_token = row_of_sequence[row] * num_columns + position_ids
    packed = Packed(
        input_ids.flatten()[cell_of_token].long(),
        token_type_ids.flatten()[cell_of_token].long(),
        position_ids,
        _cumulative(lengths_B[row_of_sequence]),
        runs_of(lengths),
    )
    return packed, Padding(num_rows, num_columns, row_of_sequence, cell_of_token)


def runs_of(lengths: Sequence[int]) -> tuple[Run, ...]:
    """Gather neighbours of equal length.

    >>> runs_of([5, 5, 3])
    (Run(start=0, count=2, length=5), Run(start=10, count=1, length=3))
    """
    runs: list[Run] = []
    for length in lengths:
        if runs and runs[-1].length == length:
            runs[-1] = replace(runs[-1], count=runs[-1].count + 1)
        else:
            runs.append(Run(runs[-1].end if runs else 0, 1, length))
    return tuple(runs)


def _cumulative(lengths_B: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths_B.cumsum(0), (1, 0)).int()
