"""`cloze evaluate`: score a model on labeled data or on held-out text."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import tee
from typing import TYPE_CHECKING

from cloze.cli import options, row_options
from cloze.cli.output import note_written, print_evaluation, print_scores
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.inference.fill_mask import FillMask

_PRETRAINING = {"mlm": "masked_lm", "nsp": "next_sentence"}
_FLAGS_OF_PRETRAINED = {
    "mlm": ("--set",),
    "nsp": ("--set",),
    "fill": (),
    "likelihood": ("--output", "--text-column"),
    "blimp": (),
}
"""The scores of pre-trained models, with the flags that each uses."""


def run(
    task: options.OptionalTaskName = None,
    /,
    *,
    model: options.Models,
    data: options.DataPathOrUrl,
    output: options.OptionalOutputPathOrUrl = None,
    errors: options.Errors = None,
    rows: row_options.RowFlags = row_options.AS_THE_TASK_SAYS,
    settings: options.Settings = (),
    device: options.Device = "auto",
    precision: options.Precision = None,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Score a model on labeled data with the official metrics of the task.

    For pre-trained models, mlm, nsp and likelihood take text, the others tables.

    Args:
        task: Name of the task (default: that of the model), or mlm, nsp, fill, likelihood or blimp.
        data: Path or URL of a file in the task's format, or of a benchmark's directory (its dev file).
            For mlm (masked LM) and nsp (next sentence): text, or a data set (its held-out documents).
            For fill: table with the columns text, with one [MASK], and answer.
            For likelihood: text with a sentence per line, or a table. For blimp: BLiMP's JSON lines.
        output: Path or URL of a file for the predictions, or the scores of sentences: .jsonl, .csv, .tsv or .parquet.
        settings: Setting of the task, as in --set classification.pair_column=answer, or of mlm and nsp, as in
            --set max_seq_length=512; may be repeated.
    """
    from cloze.api.finetuning import evaluate
    from cloze.inference.ensemble import load_ensemble
    from cloze.inference.fill_mask import FillMask
    from cloze.inference.predictor import find_task_name
    from cloze.tasks.answer_rows import check_answer_files, check_has_wrong_answers
    from cloze.tasks.prediction_files import check_output
    from cloze.tasks.registry import find_task
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    options.required(model, "--model", verb="evaluate")
    task = task or find_task_name(model[0])
    if task is None:
        remedy = f"Name what to evaluate: {', '.join(_FLAGS_OF_PRETRAINED)}"
        raise InputError("is not fine-tuned, and so has no task", where=model[0], remedy=remedy)
    if task in _FLAGS_OF_PRETRAINED:
        values = {
            "--output": output,
            "--errors": errors,
            **{f"--{name.replace('_', '-')}": value for name, value in asdict(rows).items()},
            "--set": settings,
        }
        for flag, value in values.items():
            if value and flag not in _FLAGS_OF_PRETRAINED[task]:
                raise InputError(f"not used by evaluate {task}", where=flag, remedy="Leave it out")
        first, *others = model
        if others:
            what = "only the logits of fine-tuned models can be averaged"
            raise InputError(what, where="--model", remedy="Give one model")
        if task in _PRETRAINING:
            _evaluate_pretrained(task, first, data, settings, device, precision, flags)
            return
        check_output(output, overwrite=overwrite, source=data)
        fill_mask = FillMask.load(first, device=device, precision=precision)
        if task == "fill":
            _evaluate_fill(fill_mask, data, flags)
        elif task == "blimp":
            _evaluate_blimp(fill_mask, data, flags)
        else:
            _evaluate_likelihood(fill_mask, data, rows.text_column or "text", output, flags)
        return
    task_class = find_task(task, others=_FLAGS_OF_PRETRAINED)
    check_answer_files(output, errors, overwrite=overwrite, source=data, where="--errors")
    if errors is not None:
        check_has_wrong_answers(task_class, where="--errors")
    predictor = load_ensemble(model, task, device=device, precision=precision)
    configured = row_options.configure(
        predictor.task,
        settings,
        is_trained=True,
        **asdict(rows),
    )
    result = evaluate(
        replace(predictor, task=configured),
        data,
        output=output,
        errors=errors,
        overwrite=overwrite,
        progress=flags.progress,
    )
    print_evaluation(flags, result, output=output, errors=errors)


def _evaluate_pretrained(
    task: str,
    model: str,
    data: str,
    settings: tuple[str, ...],
    device: str,
    precision: options.Precision,
    flags: options.Flags,
) -> None:
    from cloze import config as configuration
    from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained

    config = configuration.load(PretrainingEvaluationConfig, None, settings)
    measured = evaluate_pretrained(
        model, [data], config, device=device, precision=precision, progress=flags.progress
    )
    evaluation = asdict(measured)
    scores = evaluation[_PRETRAINING[task]]
    counts = {name: evaluation[name] for name in ("masked_words", "pairs")}
    lines = [f"  {name:<24} {value:.4f}" for name, value in scores.items()]
    lines.append(f"  on {counts['masked_words']:,} masked tokens, {counts['pairs']:,} pairs: {data}")
    flags.print({"data": str(data), **counts, **scores}, "\n".join(lines))


def _evaluate_fill(fill_mask: "FillMask", data: str, flags: options.Flags) -> None:
    from cloze.inference.fill_evaluation import evaluate_fill

    scores, count = evaluate_fill(fill_mask, data, progress=flags.progress)
    print_scores(flags, scores, examples=count, data=data)


def _evaluate_blimp(fill_mask: "FillMask", data: str, flags: options.Flags) -> None:
    from cloze.inference.blimp import evaluate_blimp
    from cloze.inference.sentence_scorer import SentenceScorer

    scorer = SentenceScorer(fill_mask.model, fill_mask.tokenizer)
    scores = evaluate_blimp(scorer, data, progress=flags.progress)
    rows = [*scores.paradigms.items(), *scores.fields.items(), ("accuracy", scores.accuracy)]
    width = max(len(name) for name, _ in rows)
    lines = [f"  {name:<{width}} {value:.4f}" for name, value in rows]
    lines.append(f"  on {scores.num_pairs:,} pairs: {data}")
    flags.print({"data": data, **asdict(scores)}, "\n".join(lines))


def _evaluate_likelihood(
    fill_mask: "FillMask",
    data: str,
    text_column: str,
    output: str | None,
    flags: options.Flags,
) -> None:
    from cloze.inference.embedding_files import read_texts
    from cloze.inference.sentence_scorer import SentenceScorer
    from cloze.tasks.prediction_files import write_rows

    scorer = SentenceScorer(fill_mask.model, fill_mask.tokenizer)
    scores: list[float] = []
    tokens: list[int] = []

    def rows() -> Iterator[dict[str, object]]:
        texts, copies = tee(read_texts(data, text_column))
        results = scorer.scores(texts, where=lambda number: f"{data}: text {number + 1}")
        with flags.progress.bar("scoring", total=None, unit="texts") as bar:
            for text, result in zip(copies, results, strict=True):
                scores.append(result.score)
                tokens.append(len(result.tokens))
                bar.advance(1)
                yield {"text": text, "score": result.score, "tokens": len(result.tokens)}
        if not any(tokens):
            raise InputError("contains no words", where=data, remedy="Give a text with a sentence per line")

    if output is None:
        deque(rows(), maxlen=0)
    else:
        note_written(flags, write_rows(rows(), output), output)
    if empty := tokens.count(0):
        flags.progress.note(f"empty texts, which are not in the means: {empty:,}")
    mean_token_score = math.fsum(scores) / sum(tokens)
    summary = {
        "mean_score": math.fsum(scores) / (len(scores) - empty),
        "mean_token_score": mean_token_score,
        "pseudo_perplexity": math.exp(-mean_token_score),
    }
    print_scores(flags, summary, examples=len(scores) - empty, data=data)
