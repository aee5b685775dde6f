"""Scores of masked-word prediction, against ranks counted by hand."""

from pathlib import Path

import pytest
import torch

from cloze.errors import InputError
from cloze.inference.model import Model
from cloze.inference.pretrained_heads import FillMask
from cloze.inference.pretrained_scores import evaluate_fill
from cloze.models.bert import BertModel
from cloze.models.heads import BertForMaskedLM
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import tiny_config

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "f", "##g")


@pytest.fixture
def fill_mask() -> FillMask:
    """A model to which later tokens of the vocabulary are more probable, whatever the text."""
    sizes = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 8}
    config = tiny_config(PIECES, max_position_embeddings=9, initializer_range=0.02, **sizes)
    generator = torch.Generator().manual_seed(0)
    model = BertForMaskedLM(BertModel(config, generator=generator), generator=generator).eval()
    with torch.no_grad():
        model.masked_lm.bias.copy_(4.0 * torch.arange(len(PIECES)))
    return FillMask(Model.of(model, WordPieceTokenizer.from_tokens(PIECES)))


def table(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "questions.tsv"
    path.write_text("text\tanswer\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_ranks_become_scores(fill_mask: FillMask, tmp_path: Path) -> None:
    # ranks from 0: f 1, f 1, b 5, and none for two pieces, for an unknown word and for a blank of no width
    path = table(
        tmp_path,
        *("a [MASK]\tf", "[MASK] b\tf", "c [MASK]\tb", "[MASK]\tfg", "a [MASK] b\tzzz", "a [MASK]\t\u200b"),
    )
    result = evaluate_fill(fill_mask, path)
    assert result.counts["examples"] == 6
    assert result.scores == pytest.approx(
        {
            "accuracy": 0,
            "accuracy@5": 2 / 6,
            "mean_reciprocal_rank": (1 / 2 + 1 / 2 + 1 / 6) / 6,
            "majority_accuracy": 2 / 6,
            "answers_of_one_piece": 3 / 6,
        }
    )


def test_a_uniform_model_scores_zero(fill_mask: FillMask, tmp_path: Path) -> None:
    with torch.no_grad():
        fill_mask.module.masked_lm.bias.zero_()
        fill_mask.module.bert.embeddings.word_embeddings.weight.zero_()
    scores = evaluate_fill(fill_mask, table(tmp_path, "a [MASK]\tf", "a [MASK]\tF")).scores
    assert (scores["accuracy"], scores["majority_accuracy"]) == (0, 1)


@pytest.mark.parametrize("text", ["no mask", "[MASK] and [MASK]"])
def test_a_text_without_exactly_one_mask_is_refused(fill_mask: FillMask, tmp_path: Path, text: str) -> None:
    path = table(tmp_path, "a [MASK]\tf", f"{text}\tf")
    with pytest.raises(InputError, match=r"questions\.tsv:3: \d times \[MASK\]"):
        evaluate_fill(fill_mask, path)


def test_a_text_that_is_too_long_is_refused(fill_mask: FillMask, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"questions\.tsv:3: 12 tokens, the model takes 9"):
        evaluate_fill(fill_mask, table(tmp_path, "a [MASK]\tf", f"{'a ' * 9}[MASK]\tf"))
