"""Equality with google-research/bert, number for number."""

import numpy as np
import pytest
import torch

from cloze.models.batch import pack_padded
from cloze.models.bert import GOOGLE, BertModel
from cloze.models.heads import BertForPreTraining

pytestmark = pytest.mark.protected


@pytest.fixture(scope="module")
def model(google_nano):
    config, weights, *_ = google_nano
    model = BertForPreTraining(BertModel(config)).eval()
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    model.load_state_dict(GOOGLE.from_external(dict(weights), shapes))
    return model


def close(ours, theirs):
    torch.testing.assert_close(ours.detach(), theirs, atol=1e-5, rtol=0)


def test_every_layer_equals_googles(model, google_nano):
    expected = google_nano.expected
    mask = expected["input_mask"].bool()
    output = model.bert(
        expected["input_ids"].long(), mask, expected["segment_ids"].long(), output_hidden_states=True
    )
    close(output.hidden_states[0][mask], expected["embedding_output"][mask])
    for ours, theirs in zip(output.hidden_states[1:], expected["layers"], strict=True):
        close(ours[mask], theirs[mask])
    close(output.sequence_output[mask], expected["sequence_output"][mask])
    close(output.pooled_output, expected["pooled_output"])


def test_heads_and_losses_equal_googles(model, losses, google_nano):
    expected = google_nano.expected
    mask = expected["input_mask"].bool()
    packed, padding = pack_padded(expected["input_ids"].long(), mask, expected["segment_ids"].long())
    token_of_cell = torch.full((mask.numel(),), -1)
    token_of_cell[padding.cell_of_token] = torch.arange(packed.num_tokens)
    weights = expected["masked_lm_weights"].flatten().bool()
    row = torch.arange(mask.shape[0]).unsqueeze(1) * mask.shape[1]
    positions = token_of_cell[(row + expected["masked_lm_positions"]).flatten()[weights]]
    masked_lm_ids = expected["masked_lm_ids"].flatten()[weights].long()
    labels = expected["next_sentence_labels"].flatten()[padding.row_of_sequence].long()

    logits = model(packed, positions)
    close(logits.masked_lm_logits.log_softmax(-1), expected["mlm_log_probs"][weights])
    close(padding.unpack_sequences(logits.next_sentence_logits).log_softmax(-1), expected["nsp_log_probs"])

    sums = losses(model, packed, positions, masked_lm_ids, labels)
    close(sums.masked_lm_loss_sum / (weights.sum() + 1e-5), expected["mlm_loss"])
    close(sums.next_sentence_loss_sum / len(labels), expected["nsp_loss"])


def test_repository_copy_equals_shared_golden_files(shared, google_nano):
    _, weights, expected, _ = google_nano
    for file, ours in (("weights_step0", weights), ("expected_forward", expected)):
        with np.load(shared / "golden" / "google-nano" / f"{file}.npz") as arrays:
            assert set(arrays.files) == set(ours)
            assert all(np.array_equal(arrays[name], ours[name].numpy()) for name in arrays.files)
