"""Scores of pre-trained models: pseudo-likelihoods as a plain loop adds them, ranks of answers, BLiMP's accuracies."""

import json
import lzma
import math
from pathlib import Path

import pytest
import torch

import cloze
from cloze.explorer.encoder_internals import batch_of
from cloze.inference.pretrained_heads import FillMask, SentenceScorer
from cloze.inference.pretrained_scores import evaluate_blimp, evaluate_fill
from cloze.models.heads import BertForMaskedLM
from tiny_models import tiny_config, write_checkpoint

SENTENCES = ["The cats annoy Tim.", "unfathomably, he laughed", "the", "a b c d. " * 3]
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e", "f", "##g")
COLUMNS = ("UID", "field", "sentence_good", "sentence_bad")
PAIRS = [
    ("agreement", "morphology", "The cats are here.", "The cats is here."),
    ("agreement", "morphology", "The cats is here.", "The cats are here."),
    ("gender", "morphology", "He hurt himself.", "He hurt herself."),
    ("same", "syntax/semantics", "He was there.", "He was there."),
    ("scope", "syntax_semantics", "The man was here.", "Man the here was."),
]


@pytest.fixture(scope="module")
def scorer() -> SentenceScorer:
    return SentenceScorer.load("cloze-mini", device="cpu")


@pytest.fixture
def fill_mask(tmp_path: Path) -> FillMask:
    """A model to which later tokens of the vocabulary are more probable, whatever the text."""
    sizes = {"hidden_size": 6, "num_attention_heads": 2, "intermediate_size": 8}
    config = tiny_config(PIECES, max_position_embeddings=9, initializer_range=0.02, **sizes)
    generator = torch.Generator().manual_seed(0)
    model = BertForMaskedLM(cloze.BertModel(config, generator=generator), generator=generator).eval()
    with torch.no_grad():
        model.masked_lm.bias.copy_(4.0 * torch.arange(len(PIECES)))
    return FillMask.load(write_checkpoint(tmp_path / "model", model, PIECES), device="cpu")


def score_plainly(scorer: SentenceScorer, text: str) -> list[float]:
    encoding = scorer.tokenizer.encode(text)
    continues = [scorer.tokenizer.tokens[i].startswith("##") for i in encoding.input_ids]
    values = []
    for position in range(1, len(encoding) - 1):
        copy = scorer.tokenizer.encode(text)
        end = position + 1
        while continues[end]:
            end += 1
        copy.input_ids[position:end] = [scorer.tokenizer.mask_id] * (end - position)
        with torch.inference_mode():
            logits = scorer.module(batch_of(scorer.module, copy), torch.tensor([position]))
        values.append(float(logits[0].log_softmax(-1)[encoding.input_ids[position]]))
    return values


def test_scores_are_those_of_a_plain_loop_that_hides_later_tokens_of_a_word(scorer):
    texts = ["unfathomably", "The cats annoy Tim."]
    assert len(scorer.tokenizer.encode(texts[0])) > 3
    for text in texts:
        score = scorer(text)
        found = [token.log_probability for token in score.tokens]
        assert found == pytest.approx(score_plainly(scorer, text), abs=1e-4)
        assert score.score == math.fsum(found)
        assert scorer([text]) == [score]
    assert scorer([]) == []
    assert [score.score for score in scorer(["", " \n"])] == [0, 0]


@pytest.mark.slow
def test_scores_do_not_depend_on_other_sentences(scorer):
    scores = scorer(SENTENCES * 60)  # several windows
    assert len(scores) == 240
    assert scores[-1].score == pytest.approx(scorer(SENTENCES[-1]).score, abs=1e-4)


@pytest.mark.parametrize("texts", [["a", "a " * 1000], ("a", "a " * 1000)])
def test_a_text_longer_than_the_model_is_refused(scorer, texts):
    with pytest.raises(cloze.InputError, match=r"texts\[1\]: 1,002 tokens, the model takes"):
        scorer(texts)


def table(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "questions.tsv"
    path.write_text("text\tanswer\n" + "".join(f"{row}\n" for row in rows))
    return path


def test_ranks_become_scores(fill_mask, tmp_path):
    # ranks from 0: f 1, f 1, b 5, and none for two pieces, for an unknown word and for a blank of no width
    path = table(
        tmp_path,
        *("a [MASK]\tf", "[MASK] b\tf", "c [MASK]\tb", "[MASK]\tfg", "a [MASK] b\tzzz", "a [MASK]\t\u200b"),
    )
    result = evaluate_fill(fill_mask, path)
    assert result.counts["examples"] == 6
    expected = {
        "accuracy": 0,
        "accuracy@5": 2 / 6,
        "mean_reciprocal_rank": (1 / 2 + 1 / 2 + 1 / 6) / 6,
        "majority_accuracy": 2 / 6,
        "answers_of_one_piece": 3 / 6,
    }
    assert result.scores == pytest.approx(expected)
    with torch.no_grad():  # a uniform model
        fill_mask.module.masked_lm.bias.zero_()
        fill_mask.module.bert.embeddings.word_embeddings.weight.zero_()
    scores = evaluate_fill(fill_mask, table(tmp_path, "a [MASK]\tf", "a [MASK]\tF")).scores
    assert (scores["accuracy"], scores["majority_accuracy"]) == (0, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no mask", r"0 times \[MASK\]"),
        ("[MASK] and [MASK]", r"2 times \[MASK\]"),
        (f"{'a ' * 9}[MASK]", "12 tokens, the model takes 9"),
    ],
)
def test_questions_that_cannot_be_ranked_are_refused(fill_mask, tmp_path, text, message):
    with pytest.raises(cloze.InputError, match=rf"questions\.tsv:3: {message}"):
        evaluate_fill(fill_mask, table(tmp_path, "a [MASK]\tf", f"{text}\tf"))


def write_pairs(path: Path, *pairs: tuple[str, ...]) -> Path:
    rows = [dict(zip(COLUMNS, pair, strict=True)) for pair in pairs]
    path.write_bytes(lzma.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


def test_accuracies_are_means_of_paradigms(scorer, tmp_path):
    scores = evaluate_blimp(scorer, write_pairs(tmp_path / "pairs.jsonl.xz", *PAIRS))
    # one of two opposite pairs is right whatever the model is, and equal scores are wrong
    assert scores.parts["paradigms"] == {"agreement": 0.5, "gender": 1.0, "same": 0.0, "scope": 1.0}
    assert scores.parts["fields"] == {"morphology": 0.75, "syntax_semantics": 0.5}
    assert scores.scores["accuracy"] == 0.625
    assert scores.counts["num_pairs"] == 5


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("gender", "morphology", "He hurt himself.", ""), "the cell 'sentence_bad' is empty"),
        (("agreement", "syntax", "a", "b"), "'agreement' is in the field 'syntax' here, and in 'morph"),
    ],
)
def test_wrong_pairs_are_refused_with_their_line(scorer, tmp_path, pair, message):
    with pytest.raises(cloze.InputError, match=rf"pairs\.jsonl\.xz:6: {message}"):
        evaluate_blimp(scorer, write_pairs(tmp_path / "pairs.jsonl.xz", *PAIRS, pair))
