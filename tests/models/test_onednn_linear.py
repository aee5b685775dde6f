"""Dense layers that oneDNN computes: those of torch to rounding, and parameters like any other."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.profiler import profile

from cloze.models.encoder import encoders
from cloze.models.onednn_linear import OneDnnLinear, use_onednn
from encoder_families import make_encoder
from tiny_models import numbered_tokens, write_checkpoint

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch lacks oneDNN"),
]


def make_layers(*, bias: bool = True) -> tuple[nn.Linear, OneDnnLinear]:
    torch.manual_seed(0)
    linear = nn.Linear(48, 80, bias=bias)
    return linear, OneDnnLinear(linear)


def onednn_shapes(layer: nn.Module, input_TI: torch.Tensor) -> list[list[int]]:
    """Return the shape of the input of each product of oneDNN."""
    with profile(record_shapes=True) as recorded, torch.inference_mode():
        layer(input_TI)
    return [event.input_shapes[0] for event in recorded.events() if event.name == "mkldnn::_linear_pointwise"]


@pytest.mark.parametrize("bias", [True, False])
def test_outputs_are_those_of_torch(bias: bool):
    linear, layer = make_layers(bias=bias)
    for num_tokens in (1, 7, 8, 31, 64, 65, 200):
        input_TI = torch.randn(num_tokens, 48)
        with torch.inference_mode():
            output_TO = layer(input_TI)
        torch.testing.assert_close(output_TO, linear(input_TI), rtol=1e-5, atol=1e-6)


def test_short_texts_are_computed_by_few_kernels_of_onednn():
    _, layer = make_layers()
    shapes = [onednn_shapes(layer, torch.randn(num_tokens, 48)) for num_tokens in (1, 8, 9, 33, 64, 65)]
    assert shapes == [[[8, 48]], [[8, 48]], [[16, 48]], [[40, 48]], [[64, 48]], []]


def test_it_is_trained_as_a_dense_layer():
    linear, layer = make_layers()
    input_TI = torch.randn(9, 48)
    for one in (linear, layer):
        one(input_TI).square().sum().backward()
    torch.testing.assert_close(layer.weight.grad, linear.weight.grad)
    torch.testing.assert_close(layer.bias.grad, linear.bias.grad)


def test_other_number_formats_and_shapes_are_computed_by_torch():
    linear, layer = make_layers()
    padded_BLI = torch.randn(2, 5, 48)
    with torch.inference_mode():
        assert torch.allclose(layer(padded_BLI), linear(padded_BLI), atol=1e-6)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(padded_BLI[0]).dtype == torch.bfloat16
        assert layer.double()(padded_BLI[0].double()).dtype == torch.float64


@pytest.mark.parametrize("model_type", sorted(encoders()))
def test_encoders_answer_and_are_saved_as_before(model_type, config, randomize, ragged, tmp_path):
    encoder = make_encoder(model_type, config).eval()
    randomize(encoder)
    faster = copy.deepcopy(encoder)
    use_onednn(faster)
    with torch.inference_mode():
        short = [tensor[:2] for tensor in ragged]
        assert onednn_shapes(lambda _: faster(*short), None)
        for ours, theirs in zip(faster(*short)[:2], encoder(*short)[:2], strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    files = []
    for number, one in enumerate((encoder, faster, pickle.loads(pickle.dumps(faster)))):
        write_checkpoint(tmp_path / str(number), one, numbered_tokens(103))
        files.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert files[0] == files[1] == files[2]
