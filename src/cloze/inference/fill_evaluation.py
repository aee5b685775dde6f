"""Score masked-word prediction on a table of sentences, each with one [MASK] and its answer."""

from collections import Counter
from itertools import islice

from cloze.data.reading.memory import Source
from cloze.data.reading.tables import read_rows
from cloze.errors import InputError
from cloze.inference.fill_mask import FillMask
from cloze.inference.predictor import read_ahead
from cloze.progress import SILENT, Progress
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

_TOP = 5
_ROWS_AT_ONCE = 256


def evaluate_fill(
    fill_mask: FillMask, source: Source, *, progress: Progress = SILENT
) -> tuple[dict[str, float], int]:
    """Return the scores of a model on a table with the columns text and answer, and the number of questions.

    An answer that is not a single token cannot be predicted and counts as wrong; the share of single-token answers is
    among the scores, and so is the accuracy of always predicting the most frequent answer.
    """
    tokenizer = fill_mask.tokenizer
    mask = tokenizer.special_token("mask")
    ranks: list[int | None] = []
    answers: Counter[tuple[int, ...]] = Counter()
    unknown = NONE_UNKNOWN
    rows, total = read_ahead(read_rows(source, ["text", "answer"]), source)
    with progress.bar("filling in", total=total, unit="texts") as bar:
        while part := list(islice(rows, _ROWS_AT_ONCE)):
            for row in part:
                if (count := row.required("text").count(mask)) != 1:
                    what = f"{count} times {mask} in {row.required('text')!r}"
                    remedy = f"Write {mask} once, in place of the answer"
                    raise InputError(what, where=row.where, remedy=remedy)
            ids = [tokenizer.word_ids([row.required("answer")])[0].tolist() for row in part]
            answers.update(map(tuple, ids))
            texts = [row.required("text") for row in part]
            unknown += count_unknown(tokenizer, texts)
            masked = [fill_mask.mask(text, where=row.where)[0] for text, row in zip(texts, part, strict=True)]
            of_row: dict[int, int | None] = {}
            for index, (logits_V,) in fill_mask.logits(masked):
                is_token = len(ids[index]) == 1 and ids[index][0] != tokenizer.unknown_id
                # among equal logits the answer ranks last: a uniform model knows nothing
                of_row[index] = int((logits_V >= logits_V[ids[index][0]]).sum()) - 1 if is_token else None
            ranks += [of_row[index] for index in range(len(part))]
            bar.advance(len(part))
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
