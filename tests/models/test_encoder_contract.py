"""The contract of every registered encoder."""

from dataclasses import replace

import onnxruntime
import pytest
import torch

from cloze.data.batch import collate
from cloze.export.graph import build_graph, padded_outputs
from cloze.export.onnx import compare_with_torch
from cloze.models.batch import PaddedBatch, pack_padded, to_device
from cloze.models.encoder import EncoderOutput, encoders, get_encoder, register_encoder
from cloze.models.engine import INPUTS
from cloze.models.external_weights import load_external_model
from cloze.models.heads import ModelWithHead
from encoder_families import make_encoder
from model_heads import HEADS
from tiny_models import numbered_tokens, write_checkpoint

pytestmark = pytest.mark.protected


@pytest.fixture(params=sorted(encoders()))
def encoder(request, config, randomize):
    encoder = make_encoder(request.param, config).eval()
    randomize(encoder)
    return encoder


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_outputs_do_not_depend_on_padding_order_or_other_sequences(encoder, ragged):
    input_ids, mask, token_type_ids = ragged
    output = encoder(*ragged, output_hidden_states=True)
    assert output.sequence_output.shape == (5, 19, encoder.config.hidden_size)
    assert output.pooled_output.shape == (5, encoder.config.hidden_size)
    assert len(output.hidden_states) == encoder.config.num_hidden_layers + 1
    assert torch.equal(output.hidden_states[-1], output.sequence_output)

    packed, padding = pack_padded(*ragged)
    found = encoder(packed)
    close(padding.unpack_tokens(found.sequence_output), output.sequence_output)
    close(padding.unpack_sequences(found.pooled_output), output.pooled_output)

    other = encoder(input_ids.masked_fill(~mask, 77), mask, token_type_ids.masked_fill(~mask, 1))
    assert torch.equal(output.sequence_output, other.sequence_output)
    assert torch.equal(output.pooled_output, other.pooled_output)

    order = torch.tensor([3, 0, 4, 2, 1])
    permuted = encoder(*(tensor[order] for tensor in ragged))
    close(permuted.sequence_output, output.sequence_output[order])
    close(permuted.pooled_output, output.pooled_output[order])

    for row, length in enumerate(mask.sum(1).tolist()):
        alone = encoder(input_ids[row : row + 1, :length], None, token_type_ids[row : row + 1, :length])
        close(output.sequence_output[row, :length], alone.sequence_output[0])
        close(output.pooled_output[row], alone.pooled_output[0])

    sequences = [[5, 6, 7], [8, 9], [5, 6, 7], [3]]
    forth, back = to_device(collate(sequences)), to_device(collate(sequences[::-1]))
    close(encoder(forth).pooled_output, encoder(back).pooled_output.flip(0))


def test_duplicate_model_type_is_refused():
    with pytest.raises(ValueError, match="'bert' is registered twice"):
        register_encoder("bert")(torch.nn.Linear)


@pytest.fixture(params=HEADS)
def model(request, encoder, randomize):
    if request.param in ("pre-training", "masked words") and type(encoder).__name__ == "BidirectionalLM":
        pytest.skip("two concatenated encoders have two embedding tables, and so no masked-LM head")
    model = HEADS[request.param].build(encoder).eval()
    randomize(model)
    return model


def test_weights_of_every_head_survive_saving_and_loading(model, ragged, tmp_path):
    labels = [f"class {number}" for number in range(getattr(model, "num_labels", 0))]
    write_checkpoint(tmp_path / "model", model, numbered_tokens(103), labels=labels)
    again = load_external_model(tmp_path / "model").model
    found = padded_outputs(again, *ragged)
    for output, values in padded_outputs(model, *ragged).items():
        assert torch.equal(found[output], values)


def skip_encoders_of_experiments(encoder):
    if not type(encoder).__module__.startswith("cloze."):
        pytest.skip("the encoders of experiments have no graph and no layers of their own")


def test_a_batch_with_its_padding_has_the_outputs_of_a_packed_one(model, ragged, left_padded):
    encoder = get_encoder(model)
    skip_encoders_of_experiments(encoder)
    for inputs in (ragged, left_padded):
        batch = PaddedBatch.of(*inputs, counts_padding=encoder.config.counts_padding)
        assert_equal_at_tokens(model, model.named_outputs(batch), inputs)


def assert_equal_at_tokens(model, outputs, inputs):
    expected = padded_outputs(model, *inputs)
    assert outputs.keys() == expected.keys()
    for output, values in outputs.items():
        rows = inputs[1] if output in model.token_outputs else ...
        close(values[rows], expected[output][rows])


class AllHeads(ModelWithHead):
    """All heads on one encoder, which is computed once."""

    def __init__(self, encoder):
        super().__init__(encoder)
        self.heads = torch.nn.ModuleDict({name: head.build(encoder) for name, head in HEADS.items()})
        self.token_outputs = tuple(
            f"{name}/{output}" for name, head in self.heads.items() for output in head.token_outputs
        )

    def named_outputs(self, batch):
        computed = self.bert(batch)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.bert, "forward", lambda batch: computed)
            return {
                f"{name}/{output}": values
                for name, head in self.heads.items()
                for output, values in head.named_outputs(batch).items()
            }


@pytest.mark.slow
def test_graph_of_every_head_equals_torch(encoder, config, randomize, ragged, left_padded):
    skip_encoders_of_experiments(encoder)
    if encoder.model_type not in ("bert", "distilbert"):  # then a masked-LM head may have another activation
        encoder = make_encoder(encoder.model_type, replace(config, hidden_act="gelu_tanh"))
    model = AllHeads(encoder).eval()
    randomize(model)
    data = build_graph(model).SerializeToString()
    checks = compare_with_torch(data, model)
    assert 0 < max(check.largest_difference for check in checks) < 1e-4
    assert max(check.largest_value for check in checks) > 0.1

    session = onnxruntime.InferenceSession(data)
    names = [output.name for output in session.get_outputs()]
    inputs = {name: values.long().numpy() for name, values in zip(INPUTS, left_padded, strict=True)}
    outputs = dict(zip(names, map(torch.from_numpy, session.run(names, inputs)), strict=True))
    assert_equal_at_tokens(model, outputs, left_padded)
    if not encoder.config.counts_padding:
        close(outputs["classes/logits"], padded_outputs(model, *ragged)["classes/logits"])


def test_every_matrix_of_a_layer_is_trained_by_muon(encoder):
    skip_encoders_of_experiments(encoder)
    matrices = {id(matrix.parameter): matrix for matrix in encoder.hidden_matrices()}
    for parameter in encoder.layers.parameters():
        assert (id(parameter) in matrices) == (parameter.ndim == 2)
    for parameter, num_parts in matrices.values():
        assert parameter.shape[0] % num_parts == 0


@pytest.mark.parametrize("head", ["pre-training", "masked words"])
def test_logits_of_all_tokens_are_computed_on_the_device_of_the_batch(head, config, monkeypatch):
    model = HEADS[head].build(make_encoder("bert", config)).to("meta")
    hidden = EncoderOutput(torch.zeros(3, 48, device="meta"), torch.zeros(1, 48, device="meta"), ())
    monkeypatch.setattr(model.bert, "forward", lambda batch: hidden)
    outputs = model.named_outputs(to_device(collate([[5, 6, 7]]), "meta"))
    assert {output.device.type for output in outputs.values()} == {"meta"}
    assert next(iter(outputs.values())).shape == (3, config.vocab_size)
