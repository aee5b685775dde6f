"""Int8 products: exact sums on every processor, independent tokens, and the vectors of a real encoder."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.inference.pretrained_heads import FillMask
from cloze.models.quantization import (
    QuantizedLinear,
    dequantize_rows,
    dequantize_weights,
    is_quantized,
    quantize_rows,
)
from cloze.models.torch_internals import cpu_instructions, int8_linear, pack_int8_weight

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["A dog runs.", "He sat down on the bank of the river and watched the boats.", "Stocks fell again."]


def linear(weight: torch.Tensor) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    layer.weight = nn.Parameter(weight)
    return layer


def test_the_largest_activations_and_weights_do_not_overflow():
    # nearly all activations are the largest, and the weights of a row have one sign: the largest sums there are
    weight_OI = torch.ones(48, 256)
    weight_OI[::2] = -1
    for full_range in {False, cpu_instructions().vnni}:
        layer = QuantizedLinear(linear(weight_OI), full_range=full_range)
        for sign in (1.0, -1.0):
            input_TI = torch.full((5, 256), sign)
            input_TI[:, 100] = -sign
            torch.testing.assert_close(layer(input_TI), input_TI @ weight_OI.T, rtol=1e-4, atol=0)


def test_activations_are_rounded_to_the_nearest():
    input_TI = torch.rand(50, 32, generator=torch.Generator().manual_seed(3))
    for full_range in {False, cpu_instructions().vnni}:
        layer = QuantizedLinear(linear(torch.eye(32)), full_range=full_range)
        steps_T = (input_TI.amax(1) - input_TI.amin(1)) / (255 if full_range else 127)
        errors_T = (layer(input_TI) - input_TI).abs().amax(1) / steps_T
        assert 0.45 < errors_T.max() < 0.51


@pytest.mark.skipif(cpu_instructions().vnni, reason="this processor adds products in 32 bits")
def test_eight_bits_overflow_without_vnni():
    weight_OI = torch.full((16, 256), 127, dtype=torch.int8)
    ones, zeros = torch.ones(16), torch.zeros(16, dtype=torch.int32)
    input_TI = torch.full((4, 256), 255, dtype=torch.uint8)
    output_TO = int8_linear(input_TI, pack_int8_weight(weight_OI), ones, zeros)
    assert not torch.equal(output_TO, torch.full((4, 16), 255.0 * 127 * 256))


@pytest.mark.skipif(not cpu_instructions().vnni, reason="needs a processor with AVX512-VNNI")
@pytest.mark.slow
def test_products_are_computed_by_the_processors_int8_instructions():
    """With activations in int8, oneDNN took its plain code on such a processor, a thousand times as slow."""
    code = "import torch; from cloze.models.quantization import QuantizedLinear as Q; "
    code += "Q(torch.nn.Linear(64, 32))(torch.ones(3, 64))"
    environment = {**os.environ, "ONEDNN_VERBOSE": "profile_exec", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    lines = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    (product,) = [line for line in lines.splitlines() if ",matmul," in line and ",exec," in line]
    assert ",ref" not in product


def test_quantizing_a_dequantized_matrix_gives_the_same_bits():
    generator = torch.Generator().manual_seed(1)
    matrix_RI = torch.randn(300, 64, generator=generator) * torch.logspace(-20, 20, 300).unsqueeze(1)
    matrix_RI[7] = 0
    values_RI, scales_R = quantize_rows(matrix_RI)
    assert values_RI.abs().amax(1).tolist() == [127] * 7 + [0] + [127] * 292
    again_RI, again_R = quantize_rows(dequantize_rows(values_RI, scales_R))
    assert torch.equal(again_RI, values_RI)
    assert torch.equal(again_R, scales_R)
    assert torch.all(
        (dequantize_rows(values_RI, scales_R) - matrix_RI).abs() <= 0.501 * scales_R.unsqueeze(1)
    )


@pytest.mark.parametrize("full_range", [False, True])
def test_a_token_does_not_depend_on_the_others(full_range: bool):
    if full_range and not cpu_instructions().vnni:
        pytest.skip("8 bits overflow on this processor")
    generator = torch.Generator().manual_seed(2)
    layer = QuantizedLinear(nn.Linear(64, 32), full_range=full_range)
    input_TI = torch.randn(7, 64, generator=generator)
    alone_TO = torch.cat([layer(row_1I) for row_1I in input_TI.split(1)])
    with_outlier_TI = torch.cat([input_TI, torch.full((1, 64), 1e4)])
    torch.testing.assert_close(layer(with_outlier_TI)[:7], alone_TO, rtol=0, atol=1e-6)


def test_not_a_number_is_not_hidden():
    layer = QuantizedLinear(nn.Linear(8, 4))
    input_TI = torch.zeros(2, 8)
    input_TI[1, 3] = torch.nan
    output_TO = layer(input_TI)
    assert output_TO[0].isfinite().all()
    assert output_TO[1].isnan().all()


@pytest.mark.slow
def test_int8_vectors_are_near_those_of_float32(minilm: Path):
    int8 = Embedder.load(minilm, device="cpu", precision="int8")
    assert is_quantized(int8.module)
    vectors, exact = int8(TEXTS), Embedder.load(minilm, device="cpu")(TEXTS)
    assert 0.98 < (vectors * exact).sum(1).min() < 0.99999
    alone = np.stack([int8(text) for text in TEXTS])
    assert (alone * vectors).sum(1).min() > 0.98  # last bits of other batches, which rounding amplifies


def test_all_dense_layers_but_the_pooler_are_quantized():
    module = Embedder.load("cloze-mini", device="cpu", precision="int8").module
    dense = {name for name, layer in module.named_modules() if isinstance(layer, nn.Linear | QuantizedLinear)}
    plain = {name for name, layer in module.named_modules() if isinstance(layer, nn.Linear)}
    assert plain == {name for name in dense if "pooler" in name} < dense


def test_int8_fills_masks_with_the_same_words():
    text = "She closed the [MASK] behind her."
    ((int8, *_),), ((exact, *_),) = (
        FillMask.load("cloze-mini", device="cpu", precision=precision)(text)
        for precision in ("int8", "float32")
    )
    assert int8.token == exact.token == "door"
    assert int8.probability == pytest.approx(exact.probability, abs=0.05)
    assert int8.probability != exact.probability


def test_an_int8_weight_without_scales_is_refused():
    weights = {"a": torch.ones(3, 2, dtype=torch.int8), "a.scales": torch.ones(2)}
    with pytest.raises(InputError, match="the int8 weight a has no scale for each row"):
        dequantize_weights(weights, where=Path("model"))


def test_another_precision_is_refused():
    with pytest.raises(InputError, match="precision: no precision 'int4'"):
        FillMask.load("cloze-mini", precision="int4")  # type: ignore[arg-type]


def test_a_weight_stored_by_columns_is_quantized_alike() -> None:
    linear = nn.Linear(24, 40)
    by_columns = nn.Linear(24, 40)
    by_columns.weight = nn.Parameter(linear.weight.detach().t().contiguous().t())
    by_columns.bias = linear.bias
    input_TI = torch.randn(5, 24, generator=torch.Generator().manual_seed(1))
    assert torch.equal(QuantizedLinear(by_columns)(input_TI), QuantizedLinear(linear)(input_TI))
