"""Models whose sizes all differ, so that a swapped axis cannot pass."""

import pytest
import torch

from cloze.data.batch import PretrainingBatch
from cloze.models.bert import BertConfig, BertModel
from cloze.models.heads import BertForPreTraining


@pytest.fixture
def config() -> BertConfig:
    return BertConfig(
        vocab_size=103,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=70,
        max_position_embeddings=61,
    )


@pytest.fixture
def losses():
    """Return both losses of a model for a packed batch, [P] positions and ids, and [B] labels."""

    def losses(model, packed, positions, ids, labels):
        targets = {"masked_lm_ids": ids, "next_sentence_labels": labels}
        return model.losses(PretrainingBatch.extend(packed, masked_lm_positions=positions, **targets))

    return losses


@pytest.fixture
def randomize():
    """Give every parameter, LayerNorm gains and biases included, a value that matters."""

    def randomize(model: torch.nn.Module) -> None:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                start = 1.0 if name.lower().endswith("norm.weight") else 0.0
                parameter.copy_(start + 0.2 * torch.randn(parameter.shape, generator=generator))

    return randomize


@pytest.fixture
def pretraining_model(config, randomize) -> BertForPreTraining:
    model = BertForPreTraining(BertModel(config))
    randomize(model)
    return model.eval()


@pytest.fixture
def ragged():
    """A padded batch of lengths 3, 17, 9, 17, 1: (input_ids, attention_mask, token_type_ids)."""
    generator = torch.Generator().manual_seed(11)
    lengths = torch.tensor([3, 17, 9, 17, 1])
    attention_mask = torch.arange(19) < lengths.unsqueeze(1)
    input_ids = torch.randint(1, 103, attention_mask.shape, generator=generator)
    token_type_ids = torch.randint(2, attention_mask.shape, generator=generator)
    return input_ids, attention_mask, token_type_ids


@pytest.fixture
def left_padded(ragged):
    """The same batch with its padding on the left."""
    shifts = (~ragged[1]).sum(1).tolist()
    return tuple(
        torch.stack([row.roll(shift) for row, shift in zip(rows, shifts, strict=True)]) for rows in ragged
    )
