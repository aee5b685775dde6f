"""Metrics of SQuAD's official evaluation programs, in percent.

Source: evaluate-v1.1.py and evaluate-v2.0.py of the SQuAD website (Rajpurkar et al. 2016, 2018).
"""

import operator
import re
import string
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from statistics import fmean

from cloze.metrics.breakdown import Breakdown, PartScores

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_QUESTION_TYPES = ("who", "when", "where", "why", "which", "how many", "how", "what", "other")
_QUESTION_WORD = re.compile(r"\b(who|when|where|why|which|how (?:many|much)|how|what)(?:m|se|'s)?\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_v1_scores(answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]) -> dict[str, float]:
    """Return `exact_match` and `f1` as evaluate-v1.1.py does. A missing prediction scores 0."""
    exact = f1 = 0.0
    for question, accepted in answers.items():
        if question in predictions:
            predicted = predictions[question]
            exact += exact_score(accepted, predicted)
            f1 += f1_score(accepted, predicted, empty_score=0.0)
    return {"exact_match": 100.0 * exact / len(answers), "f1": 100.0 * f1 / len(answers)}


def squad_v2_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return `exact`, `f1` and `total` of all questions and of those with and without an answer.

    All are by question id; the prediction "" is "no answer". A confidence in "no answer" (`na_probs`) above 1 replaces
    the prediction by "no answer"; with confidences, the best thresholds are added.
    """
    exact, f1 = squad_v2_question_scores(answers, predictions)
    has_answer = {question for question, accepted in answers.items() if accepted}
    replaced = set() if na_probs is None else {question for question in answers if na_probs[question] > 1.0}
    groups: dict[str, Collection[str]] = {
        "": answers,
        "HasAns_": [question for question in answers if question in has_answer],
        "NoAns_": [question for question in answers if question not in has_answer],
    }
    scores: dict[str, float] = {}
    for prefix, questions in groups.items():
        if questions:
            for name, by_question in (("exact", exact), ("f1", f1)):
                scored = [
                    float(question not in has_answer) if question in replaced else by_question[question]
                    for question in questions
                ]
                total = reduce(operator.add, scored)  # sum() rounds otherwise from Python 3.12
                scores[f"{prefix}{name}"] = 100.0 * total / len(questions)
            scores[f"{prefix}total"] = len(questions)
    if na_probs is not None:
        for name, by_question in (("exact", exact), ("f1", f1)):
            scores[f"best_{name}"], best = best_threshold(by_question, predictions, na_probs, has_answer)
            scores[f"best_{name}_thresh"] = 0.0 if best is None else best
    return scores


def squad_v2_question_scores(
    answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return exact match and F1 of every question by id, 0 to 1; accepted answers without words are ignored."""
    accepted_of = {
        question: [answer for answer in accepted if normalize_answer(answer)] or [""]
        for question, accepted in answers.items()
    }
    exact = {id_: exact_score(accepted, predictions[id_]) for id_, accepted in accepted_of.items()}
    f1 = {id_: f1_score(accepted, predictions[id_]) for id_, accepted in accepted_of.items()}
    return exact, f1


def question_type(question: str) -> str:
    """Return the first question word of an English question, or "other".

    >>> question_type("In what year?"), question_type("How much is it?"), question_type("Name a city.")
    ('what', 'how many', 'other')
    """
    match = _QUESTION_WORD.search(question.lower())
    if match is None:
        return "other"
    return "how many" if match[1] == "how much" else match[1]


def question_breakdown(
    questions: Mapping[str, str], answers: Mapping[str, Sequence[str]], predictions: Mapping[str, str]
) -> Breakdown:
    """Return exact match and F1, in percent, by question word, and by whether there is an answer if some have none."""
    exact, f1 = squad_v2_question_scores(answers, predictions)
    groups: dict[str, list[str]] = {name: [] for name in _QUESTION_TYPES}
    for question in answers:
        groups[question_type(questions[question])].append(question)
    if not all(answers.values()):
        groups["has an answer"] = [question for question, accepted in answers.items() if accepted]
        groups["has no answer"] = [question for question, accepted in answers.items() if not accepted]
    parts = {
        name: PartScores(
            {"exact": 100 * fmean(exact[id_] for id_ in ids), "f1": 100 * fmean(f1[id_] for id_ in ids)},
            len(ids),
            sum(exact[id_] == 0 for id_ in ids),
        )
        for name, ids in groups.items()
        if ids
    }
    return Breakdown("question_type", parts, has_means=False)


def best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
    has_answer: Collection[str],
) -> tuple[float, float | None]:
    """Return the highest mean score, in percent, and the threshold on `na_probs` with it; the lowest of equals.

    Questions above it have no answer; None: all questions. Starting with no question answered, the predictions are
    accepted in order of confidence.
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
    return 100.0 * best_total / len(scores), threshold


def exact_score(accepted: Sequence[str], predicted: str) -> float:
    """Return 1 if a prediction equals an accepted answer after normalization, else 0."""
    normalized = normalize_answer(predicted)
    return float(any(normalize_answer(answer) == normalized for answer in accepted))


def f1_score(accepted: Sequence[str], predicted: str, *, empty_score: float = 1.0) -> float:
    """Return the word F1 of a prediction and the accepted answer that it matches best.

    If both have no words ("the"), it is `empty_score`: 1, but 0 in evaluate-v1.1.py.
    """
    words, scores = Counter(normalize_answer(predicted).split()), []
    for answer in accepted:
        gold = Counter(normalize_answer(answer).split())
        common = (gold & words).total()
        if not common:
            scores.append(empty_score if not gold and not words else 0.0)
        else:
            precision, recall = common / words.total(), common / gold.total()
            scores.append(2 * precision * recall / (precision + recall))
    return max(scores)


def normalize_answer(text: str) -> str:
    """Return a text in lower case, without punctuation and articles, its words separated by single spaces.

    >>> normalize_answer("The  U.S. of an America")
    'us of america'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())
