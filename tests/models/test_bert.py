import dataclasses

import pytest
import torch

from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.models.batch import pack_padded, to_device
from cloze.models.bert import BertModel, initialize_weights
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification
from model_heads import HEADS

MILLIONS = {"tiny": 4.39, "mini": 11.17, "small": 28.76, "medium": 41.37, "base": 109.48, "large": 335.14}


@pytest.mark.parametrize(("size", "millions"), MILLIONS.items())
def test_parameter_counts(size, millions):
    with torch.device("meta"):
        model = BertModel(BertModel.sizes()[size])
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    assert round(num_parameters / 1e6, 2) == millions
    if size == "base":
        assert num_parameters == 109_482_240


def test_initial_weights_have_googles_distribution():
    model = BertForPreTraining(
        BertModel(BertModel.sizes()["tiny"], generator=torch.Generator().manual_seed(1)),
        generator=torch.Generator().manual_seed(2),
    )
    again = BertModel(model.config, generator=torch.Generator().manual_seed(1))
    assert torch.equal(again.layers[1].output.weight, model.bert.layers[1].output.weight)
    for parameter in again.parameters():
        parameter.data.fill_(torch.nan)
    initialize_weights(again, 0.02)
    for name, parameter in (*model.named_parameters(), *again.named_parameters()):
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "layer_norm" in name:
            assert bool((parameter == 1).all()), name
        else:
            assert parameter.abs().max() <= 0.04, name
            # the deviation of a normal cut off at 2 is 0.8796 of what it was
            assert abs(parameter.std() / 0.02 - 0.8796) < 6 / parameter.numel() ** 0.5, name


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (to_device(collate([[5, 103]])), "input_ids: 103 is not in 0..102"),
        (to_device(collate([[5, -1]])), "input_ids: -1 is not in 0..102"),
        (to_device(collate([[5, 6]], [[0, 2]])), "token_type_ids: 2 is not in 0..1"),
        (to_device(collate([[5] * 62])), "input_ids: 62 tokens, the model takes 61"),
    ],
)
def test_ids_without_embedding_are_refused(config, packed, message):
    with pytest.raises(InputError) as caught:
        BertModel(config)(packed)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["classes", "tags", "choices", "regression", "answers", "next sentence"])
def test_only_classifiers_have_dropout_of_their_own(config, ragged, name):
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = HEADS[name].build(BertModel(config)).train()
    packed, _ = pack_padded(*ragged)
    assert torch.equal(model(packed), model(packed)) == (name in ("answers", "next sentence"))


def test_default_mask_and_segments_are_all_real_and_segment_a(pretraining_model, ragged):
    input_ids, mask, _ = ragged
    bert = pretraining_model.bert
    output = bert(input_ids)
    explicit = bert(input_ids, torch.ones_like(mask), torch.zeros_like(input_ids))
    assert torch.equal(output.sequence_output, explicit.sequence_output)
    assert output.hidden_states == ()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.slow
def test_training_step_is_bit_reproducible(config, losses, autocast):
    """Two threads, dropout, every sum over tokens: no two runs may differ."""
    model = BertForPreTraining(BertModel(config, generator=torch.Generator().manual_seed(0))).train()
    generator = torch.Generator().manual_seed(5)
    packed = to_device(collate(torch.randint(1, 9, (80, 60), generator=generator).tolist()))
    positions = torch.randint(7, (2000,), generator=generator)  # the same again and again
    ids, labels = torch.randint(103, (2000,), generator=generator), torch.zeros(80, dtype=torch.int64)

    def gradients():
        torch.manual_seed(0)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            step = losses(model, packed, positions, ids, labels)
        (step.masked_lm_loss_sum + step.next_sentence_loss_sum).backward()
        return torch.nn.utils.parameters_to_vector([p.grad for p in model.parameters()])

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        first = gradients()
        assert all(torch.equal(gradients(), first) for _ in range(2))
    finally:
        torch.set_num_threads(threads)


def test_bfloat16_autocast_is_close_to_float32(pretraining_model, losses, ragged):
    packed, _ = pack_padded(*ragged)
    positions, ids = torch.tensor([1, 5, 20]), torch.tensor([3, 50, 99])
    labels = torch.zeros(packed.num_sequences, dtype=torch.int64)
    exact = losses(pretraining_model, packed, positions, ids, labels)
    with torch.autocast("cpu", torch.bfloat16):
        near = losses(pretraining_model, packed, positions, ids, labels)
    assert near.masked_lm_loss_sum.dtype == torch.float32
    for our, their in zip(near, exact, strict=True):
        torch.testing.assert_close(our, their, rtol=0.05, atol=0.05)


def test_scores_do_not_tie_under_autocast(config, ragged):
    model = BertForSequenceClassification(BertModel(config), num_labels=1).eval()
    with torch.no_grad():
        model.classifier.bias.fill_(8.0)  # bfloat16 has no number between 8 and 8.0625
    packed, _ = pack_padded(*ragged)
    with torch.autocast("cpu", torch.bfloat16):
        scores = model(packed)
    assert scores.dtype == torch.float32
    assert len(scores.unique()) == 5
    torch.testing.assert_close(scores, model(packed), rtol=0.0, atol=0.01)
