"""SQuAD metrics, equal to the official programs' outputs and to their rules on random cases."""

import json
import lzma
import random
import re
import string
from pathlib import Path

import pytest

from cloze.metrics.squad import best_threshold, f1_score, normalize_answer, squad_v1_scores, squad_v2_scores

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "squad"


@pytest.mark.protected
@pytest.mark.parametrize(
    ("kind", "na_probs"), [("predictions", "null_odds"), ("corrupted_predictions", "corrupted_na_prob")]
)
def test_scores_equal_those_of_the_official_programs(kind, na_probs):
    one, two = (
        json.loads(lzma.decompress((GOLDEN / f"squad_{version}_scores.json.xz").read_bytes()))
        for version in ("v1", "v2")
    )
    assert squad_v1_scores(one["answers"], one[kind]) == one[f"official_scores_{kind}"]
    scores = squad_v2_scores(two["answers"], two[kind], two[na_probs])
    assert scores == two[f"official_scores_{kind}"]


def _official_words(text: str) -> list[str]:
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def _official_f1(gold: str, predicted: str, version: int) -> float:
    gold_words, predicted_words = _official_words(gold), _official_words(predicted)
    if version == 2 and not (gold_words and predicted_words):
        return float(gold_words == predicted_words)
    rest, same = list(gold_words), 0
    for word in predicted_words:
        if word in rest:
            rest.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(predicted_words), same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _official_scores(answers: dict, predictions: dict, version: int) -> tuple[dict, dict]:
    exact, f1 = {}, {}
    for key, accepted in answers.items():
        golds = [a for a in accepted if _official_words(a)] or [""] if version == 2 else accepted
        exact[key] = max(int(_official_words(g) == _official_words(predictions[key])) for g in golds)
        f1[key] = max(_official_f1(g, predictions[key], version) for g in golds)
    return exact, f1


def _official_best(predictions: dict, scores: dict, sure: dict, answers: dict) -> tuple[float, float]:
    best, best_at = sum(not accepted for accepted in answers.values()), 0.0
    for size in range(1, len(sure) + 1):
        let_in = sorted(sure, key=lambda key: sure[key])[:size]
        total = 0.0
        for key, accepted in answers.items():
            if accepted:
                total += scores[key] if key in let_in else 0
            else:
                total += 0 if key in let_in and predictions[key] else 1
        if total > best + 1e-9:
            best, best_at = total, sure[let_in[-1]]
    return 100 * best / len(scores), best_at


def _random_text(chance: random.Random) -> str:
    words = ["the", "A", "an", "cat", "Cat.", "sat", "-", "U.S.", "1,000", "été", "an\u00a0ant", "the's", "x"]
    return " ".join(chance.choices(words, k=chance.choice([0, 1, 1, 2, 3, 5])))


@pytest.mark.slow
@pytest.mark.protected
def test_a_thousand_random_cases_score_as_by_the_rules():
    chance = random.Random(4)
    for _ in range(1000):
        keys = [f"q{number}" for number in range(chance.randint(1, 6))]
        answers = {key: [_random_text(chance) for _ in range(chance.choice([0, 1, 1, 3]))] for key in keys}
        predictions = {
            key: chance.choice([_random_text(chance), "", *accepted]) for key, accepted in answers.items()
        }
        sure = {key: chance.choice([-3.5, 0.0, 0.3, 1.0, 1.5, chance.random()]) for key in keys}
        exact, f1 = _official_scores(answers, predictions, 2)
        scores = squad_v2_scores(answers, predictions, sure)
        kept_exact, kept_f1 = (
            {key: float(not answers[key]) if sure[key] > 1.0 else score[key] for key in keys}
            for score in (exact, f1)
        )
        for prefix, group in (
            ("", keys),
            ("HasAns_", [key for key in keys if answers[key]]),
            ("NoAns_", [key for key in keys if not answers[key]]),
        ):
            assert (f"{prefix}total" in scores) == bool(group)
            if group:
                for name, score in (("exact", kept_exact), ("f1", kept_f1)):
                    mean = 100 * sum(score[key] for key in group) / len(group)
                    assert scores[prefix + name] == pytest.approx(mean, abs=1e-9)
        if len(set(sure.values())) == len(sure):  # of equal ones the first may be let in alone
            for name, score in (("exact", exact), ("f1", f1)):
                best = _official_best(predictions, score, sure, answers)
                found = scores[f"best_{name}"], scores[f"best_{name}_thresh"]
                assert found == pytest.approx(best, abs=1e-9)
        answered = {key: accepted or ["x"] for key, accepted in answers.items()}
        exact, f1 = _official_scores(answered, predictions, 1)
        assert squad_v1_scores(answered, predictions) == pytest.approx(
            {"exact_match": 100 * sum(exact.values()) / len(keys), "f1": 100 * sum(f1.values()) / len(keys)}
        )


def test_normalization_of_answers_articles_and_missing_predictions():
    assert normalize_answer(" The  Beyoncé's, a 10%-show ") == "beyoncés 10show"
    assert normalize_answer("theme an") == "theme"
    assert f1_score(["The"], "a") == 1
    assert f1_score(["The"], "a", empty_score=0.0) == 0
    assert squad_v1_scores({"q": ["The"]}, {"q": "a"}) == {"exact_match": 100, "f1": 0}
    assert squad_v1_scores({"q": ["x"], "r": ["y"]}, {"r": "y"}) == {"exact_match": 50, "f1": 50}


def test_threshold_is_none_if_no_answer_is_best():
    scores = {"q": 0.0, "r": 1.0}
    assert best_threshold(scores, {"q": "x", "r": "y"}, {"q": -5.0, "r": 1.0}, {"r"}) == (50, None)
