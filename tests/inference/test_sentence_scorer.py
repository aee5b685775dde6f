"""Pseudo-likelihoods equal a plain loop over masked copies."""

import math

import pytest
import torch

from cloze.errors import InputError
from cloze.explorer.encoder_internals import batch_of
from cloze.inference.pretrained_heads import SentenceScorer, WordMasking

SENTENCES = ["The cats annoy Tim.", "unfathomably, he laughed", "the", "a b c d. " * 3]


@pytest.fixture(scope="module")
def scorer() -> SentenceScorer:
    return SentenceScorer.load("cloze-mini", device="cpu")


def score_plainly(scorer: SentenceScorer, text: str, masking: WordMasking) -> list[float]:
    encoding = scorer.tokenizer.encode(text)
    continues = [scorer.tokenizer.tokens[i].startswith("##") for i in encoding.input_ids]
    values = []
    for position in range(1, len(encoding) - 1):
        copy = scorer.tokenizer.encode(text)
        end = position + 1
        while masking == "later" and continues[end]:
            end += 1
        copy.input_ids[position:end] = [scorer.tokenizer.mask_id] * (end - position)
        with torch.inference_mode():
            logits = scorer.module(batch_of(scorer.module, copy), torch.tensor([position]))
        values.append(float(logits[0].log_softmax(-1)[encoding.input_ids[position]]))
    return values


@pytest.mark.parametrize("masking", ["later", "none"])
@pytest.mark.slow
def test_scores_equal_a_plain_loop(scorer: SentenceScorer, masking: WordMasking) -> None:
    for text, score in zip(SENTENCES, scorer(SENTENCES, word_masking=masking), strict=True):
        plain = score_plainly(scorer, text, masking)
        found = [token.log_probability for token in score.tokens]
        assert found == pytest.approx(plain, abs=1e-4)
        assert score.score == math.fsum(found)


def test_later_tokens_of_a_word_are_hidden(scorer: SentenceScorer) -> None:
    text = "unfathomably"
    assert len(scorer.tokenizer.encode(text)) > 3
    later, none = scorer(text), scorer(text, word_masking="none")
    assert later.score != none.score
    assert later.tokens[-1] == none.tokens[-1]


def test_one_sentence_and_a_list_of_one_have_the_same_score(scorer: SentenceScorer) -> None:
    assert scorer([SENTENCES[0]]) == [scorer(SENTENCES[0])]
    assert scorer([]) == []


@pytest.mark.slow
def test_scores_do_not_depend_on_other_sentences(scorer: SentenceScorer) -> None:
    scores = scorer(SENTENCES * 60)  # several windows
    assert len(scores) == 240
    assert scores[-1].score == pytest.approx(scorer(SENTENCES[-1]).score, abs=1e-4)


def test_an_empty_text_scores_zero(scorer: SentenceScorer) -> None:
    assert [score.score for score in scorer(["", " \n"])] == [0, 0]


@pytest.mark.parametrize("texts", [["a", "a " * 1000], ("a", "a " * 1000)])
def test_a_text_longer_than_the_model_is_refused(scorer: SentenceScorer, texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"texts\[1\]: 1,002 tokens, the model takes"):
        scorer(texts)
