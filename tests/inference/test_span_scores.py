"""Scores of pieces: those that the answers are chosen from."""

import pytest
import torch

from cloze.inference.answer import QuestionAnswerer
from cloze.inference.span_scores import span_scores
from cloze.model.bert import BertConfig, BertModel
from cloze.model.heads import BertForQuestionAnswering
from cloze.tasks.squad import SquadV2
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh")


@pytest.mark.parametrize("text", ["a b c d", "abcdefgh" * 2 + " " + " ".join("abcdefgh" * 5), ""])
def test_scores_are_those_of_the_answers(text: str) -> None:
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=30,
        initializer_range=0.5,
    )
    generator = torch.Generator().manual_seed(4)
    model = BertForQuestionAnswering(BertModel(config, generator=generator), generator=generator).eval()
    task = SquadV2(doc_stride=5, null_threshold=1e9)
    answerer = QuestionAnswerer(model, Tokenizer.from_pieces(PIECES), task, 16)
    found = span_scores(answerer, "a c", text)
    for piece, (start, end) in zip(found.pieces, found.offsets, strict=True):
        assert piece in ("[UNK]", text[start:end])
    assert len(found.pieces) == len(found.start_logits) == len(found.end_logits)
    (prediction,) = answerer(["a c"], [text])
    for answer in prediction.candidates:
        if answer.text:
            first = [start for start, _ in found.offsets].index(answer.excerpt.start)
            last = [end for _, end in found.offsets].index(answer.excerpt.end)
            assert found.start_logits[first] == pytest.approx(answer.start_logit, abs=1e-4)
            if text == "a b c d":  # of several windows an end is scored in that of its start
                assert found.end_logits[last] == pytest.approx(answer.end_logit, abs=1e-4)
        else:
            assert found.null_score == pytest.approx(answer.score, abs=1e-4)
