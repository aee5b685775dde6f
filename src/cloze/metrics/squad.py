"""Scores of answers to questions on a text: those of SQuAD's official evaluation programs, in percent.

Source:
    evaluate-v1.1.py and evaluate-v2.0.py of the SQuAD website (Rajpurkar et al. 2016, 2018).
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class BestThreshold:
    """The threshold on "there is no answer" at which a score is highest."""

    score: float
    """The mean there, in percent."""
    threshold: float | None
    """Questions with more than this get no answer; None: none of them should get one."""


def squad_v1_scores(answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]) -> dict[str, float]:
    """Return `exact_match` and `f1` as evaluate-v1.1.py does.

    Args:
        answers: of every question, by its id: at least one.
        predictions: by id; a question without one scores 0.
    """
    exact = f1 = 0.0
    for question, accepted in answers.items():
        if question in predictions:
            predicted = predictions[question]
            exact += exact_score(accepted, predicted)
            f1 += f1_score(accepted, predicted, score_of_nothing=0.0)
    return {"exact_match": 100.0 * exact / len(answers), "f1": 100.0 * f1 / len(answers)}


def squad_v2_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    *,
    na_prob_threshold: float = 1.0,
) -> dict[str, float]:
    """Return `exact`, `f1`, `total`, these of questions with and without an answer, as evaluate-v2.0.py does.

    Args:
        answers: of every question, by its id; none where the text does not answer it.
        predictions: by id, of every question; "" says that there is no answer.
        na_probs: how sure it is that there is none, by id, in any unit. With them come the best thresholds.
        na_prob_threshold: with more than this there is taken to be none, whatever the prediction.

    Raises:
        KeyError: a question has no prediction, or none of its probability.
    """
    exact, f1 = squad_v2_question_scores(answers, predictions)
    has_answer = {question for question, accepted in answers.items() if accepted}
    sure = dict.fromkeys(answers, 0.0) if na_probs is None else na_probs
    refused = {question for question in answers if sure[question] > na_prob_threshold}
    groups: dict[str, Collection[str]] = {
        "": answers,
        "HasAns_": [question for question in answers if question in has_answer],
        "NoAns_": [question for question in answers if question not in has_answer],
    }
    scores: dict[str, float] = {}
    for prefix, questions in groups.items():
        if questions:
            for name, score_of in (("exact", exact), ("f1", f1)):
                kept = [
                    float(question not in has_answer) if question in refused else score_of[question]
                    for question in questions
                ]
                scores[f"{prefix}{name}"] = 100.0 * sum(kept) / len(questions)
            scores[f"{prefix}total"] = len(questions)
    if na_probs is not None:
        for name, score_of in (("exact", exact), ("f1", f1)):
            best = best_threshold(score_of, predictions, na_probs, has_answer)
            scores[f"best_{name}"] = best.score
            scores[f"best_{name}_thresh"] = 0.0 if best.threshold is None else best.threshold
    return scores


def squad_v2_question_scores(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return exact match and F1 of every question, 0 to 1, by its id; an answer without words is none."""
    accepted_of = {
        question: [answer for answer in accepted if normalize_answer(answer)] or [""]
        for question, accepted in answers.items()
    }
    exact = {
        question: exact_score(accepted, predictions[question]) for question, accepted in accepted_of.items()
    }
    f1 = {question: f1_score(accepted, predictions[question]) for question, accepted in accepted_of.items()}
    return exact, f1


def best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
    has_answer: Collection[str],
) -> BestThreshold:
    """Find the threshold on `na_probs` at which the mean score is highest; the lowest of several.

    It begins with no question answered, and lets the surest answers in one by one.

    Args:
        scores: of every question, 0 to 1, were its prediction taken.
        predictions: by id; "" says that there is no answer.
        na_probs: how sure it is that there is none, by id, in any unit.
        has_answer: the questions that have an answer.
    """
    total = best_total = float(sum(question not in has_answer for question in scores))
    threshold = None
    for question in sorted(na_probs, key=na_probs.__getitem__):
        if question in has_answer:
            total += scores[question]
        elif question in scores and predictions[question]:
            total -= 1
        if total > best_total:
            best_total, threshold = total, na_probs[question]
    return BestThreshold(100.0 * best_total / len(scores), threshold)


def exact_score(accepted: Sequence[str], predicted: str) -> float:
    """Return 1 where a prediction says the same as one of the accepted answers, at least one, else 0."""
    normal = normalize_answer(predicted)
    return float(any(normalize_answer(answer) == normal for answer in accepted))


def f1_score(accepted: Sequence[str], predicted: str, *, score_of_nothing: float = 1.0) -> float:
    """Return the F1 of the words of a prediction, against that of the accepted answers which it fits best.

    Args:
        accepted: the answers, at least one.
        predicted: the prediction.
        score_of_nothing: the score of a prediction without words for an answer without words ("the"): 1, but 0
            in evaluate-v1.1.py.
    """
    words = Counter(normalize_answer(predicted).split())
    return max(_f1(Counter(normalize_answer(answer).split()), words, score_of_nothing) for answer in accepted)


def normalize_answer(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, its words one space apart.

    >>> normalize_answer("The  U.S. of an America")
    'us of america'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _f1(answer: Counter[str], predicted: Counter[str], score_of_nothing: float) -> float:
    if not answer or not predicted:
        return score_of_nothing if answer == predicted else 0.0
    common = (answer & predicted).total()
    if not common:
        return 0.0
    precision, recall = common / predicted.total(), common / answer.total()
    return 2 * precision * recall / (precision + recall)
