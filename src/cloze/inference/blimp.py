"""Score acceptability judgments on BLiMP: a model is right on a pair if the acceptable sentence is more probable to it.

Source: Warstadt et al. 2020, "BLiMP: The benchmark of linguistic minimal pairs for English".
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from cloze.data.reading.memory import Source
from cloze.data.reading.tables import read_rows
from cloze.errors import InputError
from cloze.inference.predictor import read_ahead
from cloze.inference.sentence_scorer import SentenceScorer
from cloze.progress import SILENT, Progress

_PAIRS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class BlimpScores:
    """Shares of pairs on which the model is right; chance is 0.5, and a tie is wrong."""

    accuracy: float
    """The mean over the paradigms."""
    fields: dict[str, float]
    """For morphology, semantics, syntax and their interface: the mean over the field's paradigms."""
    paradigms: dict[str, float]
    num_pairs: int


def evaluate_blimp(scorer: SentenceScorer, source: Source, *, progress: Progress = SILENT) -> BlimpScores:
    """Return the scores of a model on a table with the columns UID, field, sentence_good and sentence_bad.

    A model is right on a pair if the acceptable sentence is more probable to it.

    Source: Warstadt et al. 2020, "BLiMP: The benchmark of linguistic minimal pairs for English".
    """
    is_right: dict[str, list[bool]] = defaultdict(list)
    field_of_paradigm: dict[str, str] = {}
    rows, total = read_ahead(read_rows(source, ["UID", "field", "sentence_good", "sentence_bad"]), source)
    with progress.bar("scoring", total=total, unit="pairs") as bar:
        while part := list(islice(rows, _PAIRS_AT_ONCE)):
            places = [row.where for row in part for _ in ("good", "bad")]
            sentences = [row.required(f"sentence_{which}") for row in part for which in ("good", "bad")]
            results = scorer.scores(sentences, where=places.__getitem__)
            scores = [result.score for result in results]
            for row, good, bad in zip(part, scores[::2], scores[1::2], strict=True):
                # the file has both syntax_semantics and syntax/semantics
                paradigm, field = row.required("UID"), row.required("field").replace("/", "_")
                if (known := field_of_paradigm.setdefault(paradigm, field)) != field:
                    what = f"{paradigm!r} is in the field {field!r} here, and in {known!r} above"
                    raise InputError(what, where=row.where, remedy="Give each paradigm one field")
                is_right[paradigm].append(good > bad)
            bar.advance(len(part))
    paradigms = {paradigm: fmean(values) for paradigm, values in is_right.items()}
    fields = {
        field: fmean(paradigms[paradigm] for paradigm, its in field_of_paradigm.items() if its == field)
        for field in dict.fromkeys(field_of_paradigm.values())
    }
    return BlimpScores(fmean(paradigms.values()), fields, paradigms, sum(map(len, is_right.values())))
