from typing import get_args

import pytest
import torch

from cloze.choices import Pooling
from cloze.data.batch import collate
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.engine import VectorOutput
from cloze.models.heads import SentenceEncoder
from cloze.models.pooling import POOLINGS, pool


def test_every_pooling_has_one_entry_with_names_of_its_own():
    assert tuple(POOLINGS) == get_args(Pooling)
    for names in zip(*((entry.name, entry.flag) for entry in POOLINGS.values()), strict=True):
        assert len(set(names)) == len(POOLINGS)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_of_a_batch_equals_that_of_each_sequence(pooling):
    lengths = [4, 4, 2, 1]
    batch = to_device(collate([[1] * length for length in lengths]))
    hidden = torch.randn(sum(lengths), 5, generator=torch.Generator().manual_seed(0))
    alone = [POOLINGS[pooling].function(part[None])[0] for part in hidden.split(lengths)]
    torch.testing.assert_close(pool(hidden, batch, pooling), torch.stack(alone))


def test_vectors_of_texts_are_scaled_and_then_cut(config):
    bert = BertModel(config).eval()
    batch = to_device(collate([[5, 6, 7], [8, 9]]))
    vectors = pool(bert(batch).sequence_output, batch, "mean")
    found = SentenceEncoder(bert, VectorOutput("mean", normalize=True, truncate_dim=5))(batch)
    torch.testing.assert_close(found, torch.nn.functional.normalize(vectors)[:, :5])
