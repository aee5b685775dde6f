"""Encoders that see one side: what follows does not reach what is before, on disk and off it."""

import json
from dataclasses import replace

import pytest
import torch

from cloze.artifacts import write_directory
from cloze.errors import InputError
from cloze.inference.inside import input_embeddings
from cloze.model.attention import grouped, select_backend, varlen
from cloze.model.bert import BertConfig, BertModel, Packed
from cloze.model.bilstm_on_top import BiLSTMOnBert
from cloze.model.checkpoint import KIND, load_config, load_model, write_model_files
from cloze.model.frozen_vectors import frozen_vectors
from cloze.model.heads import BertForQuestionAnswering
from cloze.model.sinusoidal import fix_positions, sinusoidal_positions
from cloze.model.two_way import TwoWayBert
from cloze.text.tokenizer import Encoding, Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(98)))
IDS = [2, 17, 31, 5, 88, 40, 3]


def encode(model: BertModel, ids: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """The vectors of the first of two sequences of one length, and its pooled one."""
    output = model.forward_packed(Packed.from_sequences([ids, [2, *range(50, 55), 3]]))
    return output.sequence_output[: len(ids)], output.pooled_output[0]


def model_below(model: BiLSTMOnBert, ids: list[int]) -> torch.Tensor:
    """What the BiLSTM reads of a sequence."""
    return BertModel.forward_packed(model, Packed.from_sequences([ids])).sequence_output


@pytest.fixture
def encoder(config: BertConfig, randomize):
    def make(attends_to: str) -> BertModel:
        model = BertModel(replace(config, attends_to=attends_to))
        randomize(model)
        return model.eval()

    return make


@pytest.mark.parametrize(
    ("attends_to", "same"), [("left", slice(0, 3)), ("right", slice(4, 7)), ("all", None)]
)
def test_a_piece_reaches_only_those_that_see_it(encoder, attends_to: str, same: slice | None) -> None:
    model = encoder(attends_to)
    before, pooled = encode(model, IDS)
    changed = [*IDS[:3], 66, *IDS[4:]]
    after, pooled_after = encode(model, changed)
    moved = ((before - after).abs().amax(-1) > 1e-4).tolist()
    expected = [True] * 7
    if same is not None:
        expected[same] = [False] * len(range(7)[same])
        assert torch.equal(before[same], after[same])
    assert moved == expected
    assert not torch.allclose(pooled, pooled_after)  # it stands where everything was seen


def test_what_looks_to_the_left_has_no_vector_of_cls(encoder) -> None:
    packed = Packed.from_sequences([IDS])
    with pytest.raises(InputError, match=r"pooling: cls: .* sees nothing of the text. Take the mean"):
        frozen_vectors(encoder("left"), packed, layer=-1, pooling="cls")
    frozen_vectors(encoder("right"), packed, layer=-1, pooling="cls")


def test_one_way_equals_torchs_causal_attention() -> None:
    generator = torch.Generator().manual_seed(0)
    query, key, value = torch.randn((3, 12, 2, 5), generator=generator)
    packed = Packed.from_sequences([[1] * 5, [1] * 5, [1] * 2])
    for attends_to, flip in (("left", False), ("right", True)):
        found = grouped(query, key, value, packed, 0.0, attends_to)
        for start, end in ((0, 5), (5, 10), (10, 12)):
            parts = [each[start:end].transpose(0, 1) for each in (query, key, value)]
            parts = [part.flip(1) for part in parts] if flip else parts
            expected = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            expected = expected.flip(1) if flip else expected
            torch.testing.assert_close(found[start:end], expected.transpose(0, 1))
    assert select_backend(query, 0.0, "left") is grouped
    with pytest.raises(ValueError, match="both ways"):
        varlen(query, key, value, packed, 0.0, "left")


def save(model, directory):
    with write_directory(directory, kind=KIND) as temporary:
        write_model_files(temporary, model, Tokenizer(PIECES))
    return directory


def test_the_setting_is_kept_and_no_other_program_takes_it_for_a_bert(encoder, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    for attends_to in ("left", "right", "all"):
        model = encoder(attends_to)
        directory = save(model, tmp_path / attends_to)
        again = load_model(directory)
        assert again.config == model.config
        assert torch.equal(encode(again, IDS)[0], encode(model, IDS)[0])
    said = json.loads((tmp_path / "all/config.json").read_text())
    assert said["model_type"] == "bert"
    assert "attends_to" not in said
    with pytest.raises(ValueError, match="one-way-bert"):
        transformers.AutoModel.from_pretrained(tmp_path / "left")


def test_the_one_way_model_has_no_graph(encoder, tmp_path) -> None:
    onnx = pytest.importorskip("cloze.export.onnx")
    with pytest.raises(InputError, match="there is no graph"):
        onnx.export_onnx(save(encoder("left"), tmp_path / "left"), tmp_path / "graph")


def test_two_encoders_side_by_side(encoder, tmp_path) -> None:
    left, right = encoder("left"), encoder("right")
    both = TwoWayBert.of(left, right)
    assert both.config.hidden_size == 88
    vectors, pooled = encode(both, IDS)
    assert torch.equal(vectors, torch.cat([encode(left, IDS)[0], encode(right, IDS)[0]], -1))
    assert torch.equal(pooled, torch.cat([encode(left, IDS)[1], encode(right, IDS)[1]], -1))
    again = load_model(save(both, tmp_path / "both"))
    assert isinstance(again, TwoWayBert)
    assert torch.equal(encode(again, IDS)[0], vectors)
    with pytest.raises(InputError, match="they have a table of words each"):
        input_embeddings(both, Encoding([2, 17, 3], [0, 0, 0], [(0, 0)] * 3, ["[CLS]", "w12", "[SEP]"]))
    with pytest.raises(InputError, match="the first encoder attends to all, wanted left"):
        TwoWayBert.of(encoder("all"), right)
    with pytest.raises(InputError, match="the second encoder attends to left, wanted right"):
        TwoWayBert.of(left, left)


def test_a_bilstm_on_top_sees_both_sides(encoder, tmp_path) -> None:
    model = BiLSTMOnBert.of(encoder("left"), generator=torch.Generator().manual_seed(3)).eval()
    before, _ = encode(model, IDS)
    after, _ = encode(model, [*IDS[:3], 66, *IDS[4:]])
    assert ((before - after).abs().amax(-1) > 1e-6).all()
    again = load_model(save(model, tmp_path / "on-top"))
    assert load_config(tmp_path / "on-top") == model.config
    assert torch.equal(encode(again, IDS)[0], before)
    _, (last, _) = model.lstm(model_below(model, IDS)[None])
    read = torch.cat([last[-2, 0], last[-1, 0]])  # where each direction of its second layer has read all
    torch.testing.assert_close(encode(model, IDS)[1], model.pooler(read).tanh())
    vectors = [
        frozen_vectors(model, Packed.from_sequences([ids]), layer=-1, pooling="cls")
        for ids in (IDS, [*IDS[:3], 66, *IDS[4:]])
    ]
    assert not torch.allclose(*vectors)
    answering = load_model(
        save(BertForQuestionAnswering(model), tmp_path / "answering"), BertForQuestionAnswering
    )
    assert isinstance(answering.bert, BiLSTMOnBert)


def test_sinusoidal_positions_by_the_formula(config: BertConfig) -> None:
    table = sinusoidal_positions(61, 44)
    assert table[7, 6].item() == pytest.approx(torch.tensor(7 / 10_000 ** (6 / 44)).sin().item(), abs=1e-6)
    assert table[7, 7].item() == pytest.approx(torch.tensor(7 / 10_000 ** (6 / 44)).cos().item(), abs=1e-6)
    model = BertModel(config)
    fix_positions(model)
    fixed = model.embeddings.position_embeddings.weight
    assert not fixed.requires_grad
    assert fixed.square().mean().sqrt().item() == pytest.approx(5 * config.initializer_range, rel=1e-5)
    torch.testing.assert_close(fixed / fixed[0, 1], table)
