"""How often a model names the word that is left out: sentences with one [MASK], each with its answer."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cloze.errors import InputError
from cloze.inference.fill import FillMask
from cloze.progress import SILENT, Progress
from cloze.stores import Place
from cloze.tasks.tables import count_rows, read_rows
from cloze.text.pieces import MASK

_TOP = 5


@dataclass(frozen=True, slots=True)
class FillQuestion:
    """A sentence with one [MASK], and the word that stood there."""

    text: str
    answer: str
    where: str


def fill_questions(path: Place) -> Iterator[FillQuestion]:
    """Yield the questions of a table with the columns text and answer.

    Raises:
        InputError: no such table, or a text without exactly one [MASK].
    """
    for row in read_rows(path, ["text", "answer"]):
        text = row.required("text")
        if text.count(MASK) != 1:
            what = f"{text.count(MASK)} times {MASK} in {text!r}"
            raise InputError(what, where=row.where, remedy=f"Write {MASK} once, for the word left out")
        yield FillQuestion(text, row.required("answer"), row.where)


def evaluate_fill(
    fill_mask: FillMask, path: Place, *, progress: Progress = SILENT
) -> tuple[dict[str, float], int]:
    """Return how often the answer is the likeliest piece, and among the five likeliest; and of how many questions.

    An answer that is not one piece of the vocabulary cannot be named, and counts as not named; the share of answers
    that are one is among the scores, and so is what always naming the most frequent answer would score.

    Raises:
        InputError: the questions are wrong, or a text has more tokens than the model takes.
    """
    tokenizer = fill_mask.tokenizer
    ranks: list[int | None] = []
    answers: Counter[tuple[int, ...]] = Counter()
    with progress.bar("filling in", total=count_rows(path), unit="texts") as bar:
        for question in fill_questions(path):
            _, *pieces, _ = tokenizer.encode(question.answer).input_ids
            answers[tuple(pieces)] += 1
            try:
                probabilities_V = fill_mask.probabilities(question.text)[0]
            except InputError as error:
                raise InputError(error.what, where=question.where, remedy=error.remedy) from error
            if len(pieces) == 1 and pieces[0] != tokenizer.unk_id:
                # of pieces with the same probability the answer stands last: a flat model knows nothing
                ranks.append(int((probabilities_V >= probabilities_V[pieces[0]]).sum()) - 1)
            else:
                ranks.append(None)
            bar.advance(1)
    count = len(ranks)
    scores = {
        "accuracy": sum(rank == 0 for rank in ranks) / count,
        f"accuracy@{_TOP}": sum(rank is not None and rank < _TOP for rank in ranks) / count,
        "mean_reciprocal_rank": sum(1 / (rank + 1) for rank in ranks if rank is not None) / count,
        "majority_accuracy": max(answers.values()) / count,
        "answers_of_one_piece": sum(rank is not None for rank in ranks) / count,
    }
    return scores, count
