"""BLiMP: accuracies by paradigm and field from the scores of sentences."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from cloze.errors import InputError
from cloze.inference.pretrained_heads import SentenceScorer
from cloze.inference.pretrained_scores import evaluate_blimp


@pytest.fixture(scope="module")
def scorer() -> SentenceScorer:
    return SentenceScorer.load("cloze-mini", device="cpu")


def pair(paradigm: str, field: str, good: str, bad: str) -> dict[str, Any]:
    return {"UID": paradigm, "field": field, "sentence_good": good, "sentence_bad": bad, "pairID": "0"}


PAIRS = [
    pair("agreement", "morphology", "The cats are here.", "The cats is here."),
    pair("agreement", "morphology", "The cats is here.", "The cats are here."),
    pair("gender", "morphology", "He hurt himself.", "He hurt herself."),
    pair("same", "syntax/semantics", "He was there.", "He was there."),
    pair("scope", "syntax_semantics", "The man was here.", "Man the here was."),
]


def write_pairs(path: Path, pairs: list[dict[str, Any]]) -> Path:
    path.write_bytes(lzma.compress("\n".join(map(json.dumps, pairs)).encode()))
    return path


def test_accuracies_are_means_of_paradigms(scorer: SentenceScorer, tmp_path: Path) -> None:
    scores = evaluate_blimp(scorer, write_pairs(tmp_path / "pairs.jsonl.xz", PAIRS))
    # one of two opposite pairs is right whatever the model is, and equal scores are wrong
    assert scores.parts["paradigms"] == {"agreement": 0.5, "gender": 1.0, "same": 0.0, "scope": 1.0}
    assert scores.parts["fields"] == {"morphology": 0.75, "syntax_semantics": 0.5}
    assert scores.scores["accuracy"] == 0.625
    assert scores.counts["num_pairs"] == 5


def test_an_empty_sentence_is_refused_with_its_line(scorer: SentenceScorer, tmp_path: Path) -> None:
    pairs = [*PAIRS, pair("gender", "morphology", "He hurt himself.", "")]
    with pytest.raises(InputError, match=r"pairs\.jsonl\.xz:6: the cell 'sentence_bad' is empty"):
        evaluate_blimp(scorer, write_pairs(tmp_path / "pairs.jsonl.xz", pairs))


def test_a_paradigm_of_two_fields_is_refused(scorer: SentenceScorer, tmp_path: Path) -> None:
    pairs = [*PAIRS, pair("agreement", "syntax", "The cats are here.", "The cats is here.")]
    with pytest.raises(InputError, match=r":6: 'agreement' is in the field 'syntax' here, and in 'morph"):
        evaluate_blimp(scorer, write_pairs(tmp_path / "pairs.jsonl.xz", pairs))


@pytest.mark.slow
def test_scores_of_the_real_file(scorer: SentenceScorer, shared: Path, tmp_path: Path) -> None:
    with lzma.open(shared / "data" / "blimp" / "blimp.jsonl.xz", "rt") as lines:
        pairs = [json.loads(line) for line in lines]
    chosen = [row for row in pairs if row["UID"] == "regular_plural_subject_verb_agreement_1"][::20]
    scores = evaluate_blimp(scorer, write_pairs(tmp_path / "some.jsonl.xz", chosen))
    assert scores.counts["num_pairs"] == 50
    assert scores.scores["accuracy"] > 0.7  # chance is 0.5; three standard errors above it are 0.71
