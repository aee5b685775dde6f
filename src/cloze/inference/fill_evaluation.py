"""Score masked-word prediction on a table of sentences, each with one [MASK] and its answer."""

from collections import Counter

from cloze.data.table_files import count_rows
from cloze.data.tables import read_rows
from cloze.errors import InputError
from cloze.inference.fill_mask import FillMask
from cloze.progress import SILENT, Progress
from cloze.remote_files import PathOrUrl
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

_TOP = 5


def evaluate_fill(
    fill_mask: FillMask, path: PathOrUrl, *, progress: Progress = SILENT
) -> tuple[dict[str, float], int]:
    """Return the scores of a model on a table with the columns text and answer, and the number of questions.

    An answer that is not a single token cannot be predicted and counts as wrong; the share of single-token answers is
    among the scores, and so is the accuracy of always predicting the most frequent answer.

    Raises:
        InputError: there is no such table, or a text has not exactly one [MASK] or too many tokens for the model.
    """
    tokenizer = fill_mask.tokenizer
    mask = tokenizer.special_token("mask")
    ranks: list[int | None] = []
    answers: Counter[tuple[int, ...]] = Counter()
    unknown = NONE_UNKNOWN
    with progress.bar("filling in", total=count_rows(path), unit="texts") as bar:
        for row in read_rows(path, ["text", "answer"]):
            text = row.required("text")
            if text.count(mask) != 1:
                what = f"{text.count(mask)} times {mask} in {text!r}"
                raise InputError(what, where=row.where, remedy=f"Write {mask} once, in place of the answer")
            answer = tokenizer.word_ids([row.required("answer")])[0].tolist()
            answers[tuple(answer)] += 1
            unknown += count_unknown(tokenizer, [text])
            try:
                probabilities_V = fill_mask.probabilities(text)[0]
            except InputError as error:
                raise InputError(error.what, where=row.where, remedy=error.remedy) from error
            if len(answer) == 1 and answer[0] != tokenizer.unk_id:
                # among equal probabilities the answer ranks last: a uniform model knows nothing
                ranks.append(int((probabilities_V >= probabilities_V[answer[0]]).sum()) - 1)
            else:
                ranks.append(None)
            bar.advance(1)
    unknown.warn("texts")
    count = len(ranks)
    scores = {
        "accuracy": sum(rank == 0 for rank in ranks) / count,
        f"accuracy@{_TOP}": sum(rank is not None and rank < _TOP for rank in ranks) / count,
        "mean_reciprocal_rank": sum(1 / (rank + 1) for rank in ranks if rank is not None) / count,
        "majority_accuracy": max(answers.values()) / count,
        "answers_of_one_piece": sum(rank is not None for rank in ranks) / count,
    }
    return scores, count
