"""Scores of pre-trained models: masked words, next sentence, blanks, pseudo-likelihood, minimal pairs."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cloze import config as configuration
from cloze.arguments import check_paths, iterate_texts
from cloze.choices import InferencePrecision
from cloze.data.reading.memory import Source, rows_from_memory
from cloze.data.row_files import write_rows
from cloze.errors import InputError
from cloze.inference.blimp import evaluate_blimp
from cloze.inference.embedding_files import read_texts
from cloze.inference.fill_evaluation import evaluate_fill
from cloze.inference.fill_mask import FillMask
from cloze.inference.sentence_scorer import SentenceScorer
from cloze.progress import Progress

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
        from cloze.inference.checkpoint import Checkpoint
        from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained

        checkpoint = Checkpoint.open(model, precision=precision)
        has_pairs = checkpoint.has("next-sentence")
        table = {"pairs": {"next_sentence": has_pairs}}
        configuration.merge_dicts(table, configuration.nest(settings))
        config = configuration.from_dict(PretrainingEvaluationConfig, table, where="settings")
        if kind == "nsp" and not (has_pairs and config.pairs.next_sentence):
            what = (
                "has no next-sentence head" if not has_pairs else "pairs.next_sentence=false leaves no pairs"
            )
            raise InputError(what, where=model, remedy="Score its masked words: cloze evaluate mlm")
        paths = check_paths(data, "data")
        measured = evaluate_pretrained(
            checkpoint.directory,
            paths,
            config,
            device=device,
            precision=checkpoint.precision,
            progress=progress,
        )
        scores = measured.masked_lm if kind == "mlm" else measured.next_sentence
        return PretrainedScores(scores, {"masked_words": measured.masked_words, "pairs": measured.pairs})
    if kind == "fill":
        fill_mask = FillMask.load(model, device=device, precision=precision)
        scores, count = evaluate_fill(fill_mask, _as_source(data), progress=progress)
        return PretrainedScores(scores, {"examples": count})
    scorer = SentenceScorer.load(model, device=device, precision=precision)
    if kind == "likelihood":
        return _score_likelihood(scorer, data, text_column or "text", output, progress)
    blimp = evaluate_blimp(scorer, _as_source(data), progress=progress)
    parts = {"fields": blimp.fields, "paradigms": blimp.paradigms}
    return PretrainedScores({"accuracy": blimp.accuracy}, {"num_pairs": blimp.num_pairs}, parts)


def _as_source(data: Any) -> Source:
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
