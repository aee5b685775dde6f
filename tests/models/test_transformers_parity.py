"""Equality with transformers' BertForPreTraining: values and gradients, padded and ragged."""

from dataclasses import asdict, replace

import pytest
import torch
import transformers
from torch.nn import functional

from cloze.models.batch import pack_padded
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.models.weight_mapping import HUGGING_FACE, normalize_hugging_face_names

pytestmark = pytest.mark.protected

THEIR_ACTIVATION = {"gelu": "gelu", "gelu_tanh": "gelu_new"}


@pytest.fixture(params=["gelu", "gelu_tanh"])
def models(request, config, randomize):
    ours = BertForPreTraining(BertModel(replace(config, hidden_act=request.param))).eval()
    randomize(ours)
    their_config = transformers.BertConfig(**asdict(config) | {"hidden_act": THEIR_ACTIVATION[request.param]})
    theirs = transformers.BertForPreTraining(their_config).eval()
    missing, unexpected = theirs.load_state_dict(HUGGING_FACE.to_external(ours.state_dict()), strict=False)
    assert set(missing) <= {
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "bert.embeddings.position_ids",
    }
    assert not unexpected
    theirs.tie_weights()
    return ours, theirs


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch", ["ragged", "full"])
def test_outputs_and_logits_equal_transformers(models, ragged, batch):
    ours, theirs = models
    input_ids, mask, token_type_ids = ragged
    mask = torch.ones_like(mask) if batch == "full" else mask
    packed, padding = pack_padded(input_ids, mask, token_type_ids)
    with torch.no_grad():
        output = ours.bert(input_ids, mask, token_type_ids)
        logits = ours(packed, torch.arange(packed.num_tokens))
        inputs = {"input_ids": input_ids, "attention_mask": mask.long(), "token_type_ids": token_type_ids}
        their_output = theirs.bert(**inputs)
        their_logits = theirs(**inputs)
    close(output.sequence_output[mask], their_output.last_hidden_state[mask])
    assert not output.sequence_output[~mask].any()
    close(output.pooled_output, their_output.pooler_output)
    our_logits = padding.unpack_tokens(logits.masked_lm_logits)
    close(our_logits[mask], their_logits.prediction_logits[mask])
    close(padding.unpack_sequences(logits.next_sentence_logits), their_logits.seq_relationship_logits)


def test_gradients_equal_transformers(models, losses, ragged):
    ours, theirs = models
    input_ids, mask, token_type_ids = ragged
    generator = torch.Generator().manual_seed(3)
    masked = mask & (torch.rand(mask.shape, generator=generator) < 0.4)
    labels = torch.randint(103, mask.shape, generator=generator).masked_fill(~masked, -100)
    next_sentence = torch.tensor([0, 1, 1, 0, 1])

    packed, padding = pack_padded(input_ids, mask, token_type_ids)
    packed_labels = labels.flatten()[padding.cell_of_token]
    positions = (packed_labels != -100).nonzero().squeeze(1)
    row = padding.row_of_sequence
    sums = losses(ours, packed, positions, packed_labels[positions], next_sentence[row])
    loss = sums.masked_lm_loss_sum / len(positions) + sums.next_sentence_loss_sum / len(next_sentence)
    loss.backward()

    their_logits = theirs(input_ids, attention_mask=mask.long(), token_type_ids=token_type_ids)
    their_loss = functional.cross_entropy(
        their_logits.prediction_logits.flatten(0, 1), labels.flatten()
    ) + functional.cross_entropy(their_logits.seq_relationship_logits, next_sentence)
    their_loss.backward()

    close(loss, their_loss)
    our_gradients = HUGGING_FACE.to_external({name: p.grad for name, p in ours.named_parameters()})
    their_gradients = normalize_hugging_face_names(
        {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    )
    assert set(our_gradients) == set(their_gradients)
    for name, gradient in our_gradients.items():
        close(gradient, their_gradients[name])
