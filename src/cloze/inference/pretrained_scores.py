"""Scores of pre-trained models: masked words, next sentence, blanks, pseudo-likelihood, minimal pairs."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from cloze.arguments import check_paths, iterate_texts
from cloze.choices import InferencePrecision
from cloze.config import resolve
from cloze.data.reading.formats import read_rows
from cloze.data.reading.memory import Data, rows_from_memory
from cloze.data.row_files import write_rows
from cloze.errors import InputError
from cloze.inference.embedding_files import read_texts
from cloze.inference.predictor import read_ahead
from cloze.inference.pretrained_heads import FillMask, NextSentence, SentenceScorer
from cloze.model_paths import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

USED_ARGUMENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mlm": ("settings",),
        "nsp": ("settings",),
        "fill": (),
        "likelihood": ("output", "text_column"),
        "blimp": (),
    }
)
"""The arguments of `cloze.evaluate` that each of them uses, besides model, data and device."""
_PAIRS_AT_ONCE = 1000
_ROWS_AT_ONCE = 256
_TOP = 5


@dataclass(frozen=True, slots=True)
class PretrainedScores:
    """Scores of a model on text."""

    scores: Mapping[str, float]
    counts: Mapping[str, int]
    """Numbers of examples, by their kind."""
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Scores of parts of the data."""


def score_pretrained(
    kind: str,
    model: str | Path,
    data: Any,
    *,
    text_column: str | None = None,
    output: str | Path | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    device: str = "auto",
    precision: InferencePrecision | None = None,
    progress: Progress,
) -> PretrainedScores:
    """Return scores of a pre-trained model; `kind` is a key of `USED_ARGUMENTS`, the others are as for `evaluate`."""
    if kind in ("mlm", "nsp"):
        from cloze.inference.torch_model import TorchModel
        from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained

        opened = TorchModel(resolve_checkpoint(model), device, precision)
        has_pairs = opened.has(NextSentence.output)
        config = resolve(PretrainingEvaluationConfig, {"pairs.next_sentence": has_pairs}, settings)
        if kind == "nsp" and not (has_pairs and config.pairs.next_sentence):
            what = (
                "has no next-sentence head" if not has_pairs else "pairs.next_sentence=false leaves no pairs"
            )
            raise InputError(what, where=model, remedy="Score its masked words: cloze evaluate mlm")
        paths = check_paths(data, "data")
        measured = evaluate_pretrained(
            opened.directory,
            paths,
            config,
            device=device,
            precision=precision,
            verify=False,
            progress=progress,
        )
        scores = measured.masked_lm if kind == "mlm" else measured.next_sentence
        return PretrainedScores(scores, {"masked_words": measured.masked_words, "pairs": measured.pairs})
    if kind == "fill":
        fill_mask = FillMask.load(model, device=device, precision=precision)
        return evaluate_fill(fill_mask, _as_source(data), progress=progress)
    scorer = SentenceScorer.load(model, device=device, precision=precision)
    if kind == "likelihood":
        return _score_likelihood(scorer, data, text_column or "text", output, progress)
    return evaluate_blimp(scorer, _as_source(data), progress=progress)


def _as_source(data: Any) -> Data:
    return data if isinstance(data, (str, Path)) else rows_from_memory(data, "data")


def _score_likelihood(
    scorer: SentenceScorer, data: Any, text_column: str, output: str | Path | None, progress: Progress
) -> PretrainedScores:
    """Return the mean scores of the sentences of a file or in memory, and write those of each to an output."""
    is_file = isinstance(data, (str, Path))
    texts: Iterable[str] = read_texts(data, text_column) if is_file else iterate_texts(data, "data")
    scores: list[float] = []
    tokens: list[int] = []

    def rows() -> Iterator[dict[str, object]]:
        inputs, copies = tee(texts)
        where = (lambda number: f"{data}: text {number + 1}") if is_file else "data[{}]".format
        results = scorer.scores(inputs, where=where)
        with progress.bar("scoring", total=None, unit="texts") as bar:
            for text, result in zip(copies, results, strict=True):
                scores.append(result.score)
                tokens.append(len(result.tokens))
                bar.advance(1)
                yield {"text": text, "score": result.score, "tokens": len(result.tokens)}
        if not any(tokens):
            place, remedy = data if is_file else "data", "Give a text with a sentence per line"
            raise InputError("contains no words", where=place, remedy=remedy)

    if output is None:
        deque(rows(), maxlen=0)
    else:
        write_rows(rows(), str(output), progress=progress)
    if empty := tokens.count(0):
        progress.note(f"empty texts, which are not in the means: {empty:,}")
    count = len(scores) - empty
    mean_token_score = math.fsum(scores) / sum(tokens)
    means = {
        "mean_score": math.fsum(scores) / count,
        "mean_token_score": mean_token_score,
        "pseudo_perplexity": math.exp(-mean_token_score),
    }
    return PretrainedScores(means, {"examples": count})


def evaluate_fill(fill_mask: FillMask, source: Data, *, progress: Progress = SILENT) -> PretrainedScores:
    """Return the scores of a model on a table with the columns text and answer.

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
            input_ids = [tokenizer.encode(text).input_ids for text in texts]
            unknown += count_unknown(tokenizer, texts, input_ids)
            masked = [
                fill_mask.mask(text, ids, where=row.where)[0]
                for text, ids, row in zip(texts, input_ids, part, strict=True)
            ]
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
    return PretrainedScores(scores, {"examples": count})


def evaluate_blimp(scorer: SentenceScorer, source: Data, *, progress: Progress = SILENT) -> PretrainedScores:
    """Return the scores of a model on a table with the columns UID, field, sentence_good and sentence_bad.

    A model is right on a pair if the acceptable sentence is more probable to it; a tie is wrong. The accuracy is the
    mean over the paradigms, that of a field the mean over its paradigms.

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
    return PretrainedScores(
        {"accuracy": fmean(paradigms.values())},
        {"num_pairs": sum(map(len, is_right.values()))},
        {"fields": fields, "paradigms": paradigms},
    )
