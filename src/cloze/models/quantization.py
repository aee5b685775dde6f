"""Int8 inference on CPUs: weights with a scale for each row, activations rounded at run time for each token.

Source: Zafrir et al. 2019 (Q8BERT), 2; Dettmers et al. 2022 (LLM.int8()), 3.1, for a scale for each token.

Shapes: T tokens, I inputs, O outputs, R rows of a matrix.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.models.encoder import Encoder
from cloze.models.torch_internals import cpu_instructions, int8_linear, pack_int8_weight

INT8_KIND = "int8 checkpoint"
"""A directory that `cloze export --to int8` wrote."""
INT8_PREFIX = "cloze-int8-"
"""The prefix of the model type of int8 checkpoints, so that other programs refuse them."""
SCALES_SUFFIX = ".scales"
"""In files, the scales of a matrix have its name and this suffix."""

_LIMIT = 127
_LIMIT_8, _LIMIT_7 = 255, 127
"""Steps between the least and the largest activation of a token. Processors without VNNI add two products in 16 bits,
in which 2 x 127 x 127 fits."""
_MIN_SCALE = 1e-30  # of a row of zeros
_ROWS_AT_ONCE = 4096


def quantize_rows(matrix_RI: Tensor) -> tuple[Tensor, Tensor]:
    """Return a matrix as int8, [R, I], and the scale of each row, [R].

    Scales have 16 significant bits, so that the products of both are exact: quantizing `dequantize_rows` of the result
    gives the same bits.
    """
    scales_R = matrix_RI.abs().amax(1).div(_LIMIT).clamp_min(_MIN_SCALE)
    bits_R = scales_R.view(torch.int32)
    scales_R = (
        (bits_R + 0xFF).bitwise_and(~0xFF).view(torch.float32)
    )  # rounded up: no value exceeds the limit
    return (matrix_RI / scales_R.unsqueeze(1)).round_().to(torch.int8), scales_R


def dequantize_rows(values_RI: Tensor, scales_R: Tensor) -> Tensor:
    """Return the matrix that int8 values and scales stand for, in float32."""
    return values_RI.float() * scales_R.unsqueeze(1)


class QuantizedLinear(nn.Module):
    """A dense layer whose product is computed in int8 and summed in 32 bits, on CPUs.

    Each token is rounded with a scale and an offset of its own, so that its output depends on no other token of the
    batch: its numbers are `scale * rounded + offset`, and the offset times the sum of a row of weights is added after
    the product.
    """

    _scales: Tensor
    _zeros: Tensor
    _row_sums: Tensor

    def __init__(self, linear: nn.Linear, *, full_range: bool | None = None) -> None:
        """Quantize a dense layer; activations have 8 bits instead of 7 if `full_range`, by default with VNNI."""
        super().__init__()
        self.full_range = cpu_instructions().vnni if full_range is None else full_range
        values_OI, scales_O = quantize_rows(linear.weight.detach())
        self._packed = pack_int8_weight(values_OI)
        self.register_buffer("_scales", scales_O)
        self.register_buffer("_zeros", torch.zeros(len(values_OI), dtype=torch.int32))
        self.register_buffer("_row_sums", values_OI.sum(1) * scales_O)
        bias = torch.zeros(len(values_OI)) if linear.bias is None else linear.bias.detach()
        self.bias = nn.Parameter(bias, requires_grad=False)

    def forward(self, input_TI: Tensor) -> Tensor:
        """Return [T, O] in float32; there is no gradient."""
        offsets_T1 = input_TI.amin(-1, keepdim=True)
        range_T1 = input_TI.amax(-1, keepdim=True) - offsets_T1
        scales_T1 = range_T1.div_(_LIMIT_8 if self.full_range else _LIMIT_7).clamp_min_(_MIN_SCALE)
        inverse_T1 = scales_T1.reciprocal()
        # oneDNN multiplies uint8 fast on all processors, but torch converts to int8 four times as fast
        if self.full_range:
            signed_TI = input_TI - torch.add(offsets_T1, scales_T1, alpha=128)
            signed_TI = signed_TI.mul_(inverse_T1).round_().to(torch.int8).bitwise_xor_(-128)
        else:  # none is negative, so that the conversion, which truncates, rounds
            shifted_TI = input_TI - torch.sub(offsets_T1, scales_T1, alpha=0.5)
            signed_TI = shifted_TI.mul_(inverse_T1).to(torch.int8)
        rounded_TI = signed_TI.view(torch.uint8)
        product_TO = int8_linear(rounded_TI, self._packed, self._scales, self._zeros)
        return torch.addcmul(self.bias, offsets_T1, self._row_sums).addcmul_(product_TO, scales_T1)


def quantized_weights(encoder: Encoder) -> Iterator[str]:
    """Yield the names of the weights that int8 applies to: dense layers other than the pooler, and embeddings."""
    for name, module in encoder.named_modules():
        if isinstance(module, nn.Embedding) or _is_quantizable(name, module):
            yield f"{name}.weight"


def quantize_encoder(encoder: Encoder) -> None:
    """Quantize the dense layers of an encoder on the CPU, and round its embeddings to what int8 can hold.

    The pooler stays in float32: it reads one token of each text, so its product takes no time.
    """
    device = next(encoder.parameters()).device
    if device.type != "cpu":
        raise InputError(
            f"int8 runs on CPUs, not on {device.type}", where="precision", remedy="Say device cpu"
        )
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        what = "this build of torch lacks oneDNN, which computes int8"
        raise InputError(what, where="precision", remedy="Use float32")
    for module in list(encoder.modules()):
        if isinstance(module, nn.Embedding):
            module.weight.requires_grad = False
            for rows_RI in torch.split(module.weight, _ROWS_AT_ONCE):  # without a second table in memory
                rows_RI.copy_(dequantize_rows(*quantize_rows(rows_RI)))
    for name in [name for name, module in encoder.named_modules() if _is_quantizable(name, module)]:
        layer: Any = encoder.get_submodule(name)  # the weights of one layer after the other are freed
        encoder.set_submodule(name, QuantizedLinear(layer))


def is_quantized(model: nn.Module) -> bool:
    """Whether dense layers of a model are quantized."""
    return any(isinstance(module, QuantizedLinear) for module in model.modules())


def dequantize_weights(weights: Mapping[str, Tensor], *, where: Path) -> dict[str, Tensor]:
    """Return the weights of a file in floating point; int8 weights are multiplied by their scales."""
    scales = {name: weight for name, weight in weights.items() if name.endswith(SCALES_SUFFIX)}
    dequantized = {}
    for name, weight in weights.items():
        if name in scales:
            continue
        if weight.dtype == torch.int8:
            scales_R = scales.get(f"{name}{SCALES_SUFFIX}")
            if weight.ndim != 2 or scales_R is None or scales_R.shape != weight.shape[:1]:
                what = f"the int8 weight {name} has no scale for each row"
                raise InputError(what, where=where, remedy="Copy the directory again, or export it again")
            weight = dequantize_rows(weight, scales_R.float())
        dequantized[name] = weight
    return dequantized


def is_int8_directory(directory: Path) -> bool:
    """Whether `cloze export --to int8` wrote a directory."""
    config = directory / CONFIG_FILE
    if not config.is_file():
        return False
    model_type = read_json(config, remedy="Give the directory of a checkpoint").get("model_type")
    return isinstance(model_type, str) and model_type.startswith(INT8_PREFIX)


def stored_precision(directory: Path) -> Literal["float32", "int8"]:
    """Return the number format of a checkpoint's matrix products where none is asked for."""
    return "int8" if is_int8_directory(directory) else "float32"


def refuse_int8(directory: Path, verb: str) -> None:
    """Refuse to change the weights of an int8 checkpoint or to write them again; `verb` is "trained" or the like."""
    if is_int8_directory(directory):
        what = f"an int8 model, which cannot be {verb}"
        raise InputError(what, where=directory, remedy="Give the model that it was exported from")


def _is_quantizable(name: str, module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) and "pooler" not in name.split(".")
