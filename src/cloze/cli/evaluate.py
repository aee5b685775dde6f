"""`cloze evaluate TASK`: the scores of a model on labelled data, or of a pre-trained one on any text."""

from dataclasses import asdict, replace
from pathlib import Path

from cloze.cli.common import (
    DataPlace,
    Device,
    Flags,
    Models,
    OptionalName,
    OptionalOutputPlace,
    Settings,
    TaskName,
    required,
)
from cloze.errors import InputError

_PRETRAINING = {"mlm": "masked_lm", "nsp": "next_sentence"}
_FILL = "fill"


def run(
    task: TaskName,
    /,
    *,
    model: Models,
    data: DataPlace,
    output: OptionalOutputPlace = None,
    text_column: OptionalName = None,
    label_column: OptionalName = None,
    settings: Settings = (),
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Score a model on labelled data with the official metrics of its task; or a pre-trained one on any text.

    Args:
        task: what the model was fine-tuned for (cloze tasks lists what there is); for a pre-trained one mlm, hidden
            words, nsp, next sentences, or fill, sentences with one [MASK] and the word that stood there.
        model: a checkpoint or a run; of a fine-tuning run the best is taken; several answer as one, by the mean of
            their logits.
        data: a file in the task's format, or a directory with the dev file of a benchmark; for mlm and nsp text, or a
            data set, whose held-out documents are taken; for fill a table with the columns text and answer. Files and
            texts may be URLs, such as s3://bucket/dev.tsv.
        output: write the predictions there, too, as JSON lines: a file or a URL.
        text_column: name of the column with the text, where it is not as in the training data.
        label_column: name of the column with the label, likewise.
        settings: a setting of the task, as in --set classification.pair_column=answer, or of mlm and nsp, as in
            --set max_seq_length=512; may be given several times.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    required(model, "--model", verb="evaluate")
    if task in (*_PRETRAINING, _FILL):
        unused = {
            "--output": output,
            "--text-column": text_column,
            "--label-column": label_column,
            "--set": settings if task == _FILL else (),
        }
        if named := [flag for flag, value in unused.items() if value]:
            raise InputError(f"evaluate {task} has no use for it", where=named[0], remedy="Leave it out")
    if task in _PRETRAINING:
        _evaluate_pretrained(task, _only(model), data, settings, device, flags)
        return
    if task == _FILL:
        _evaluate_fill(_only(model), data, device, flags)
        return
    from cloze import config as configuration
    from cloze.cli.predict import check_output, write_predictions
    from cloze.cli.scores import score_lines
    from cloze.inference.ensemble import load_ensemble
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import find_data

    check_output(output, overwrite=overwrite, source=data)
    predictor = load_ensemble(model, task, device=device)
    given = {f"{task}.text_column": text_column, f"{task}.label_column": label_column}
    reader = with_settings(predictor.task, [*settings, *configuration.as_overrides(given)], is_trained=True)
    predictor = replace(predictor, task=reader)
    file = find_data(reader, data, "dev")
    evaluation = predictor.evaluate(reader.examples(file), progress=flags.progress)
    if output is not None:
        write_predictions(predictor.task, evaluation.answers, output)
    lines = score_lines(evaluation.scores, examples=len(evaluation.answers), data=file)
    flags.print(
        {"data": str(file), "examples": len(evaluation.answers), **evaluation.scores}, "\n".join(lines)
    )


def _evaluate_pretrained(
    task: str, model: Path, data: str, settings: tuple[str, ...], device: str, flags: Flags
) -> None:
    from cloze import config as configuration
    from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained

    config = configuration.load(PretrainingEvaluationConfig, None, settings)
    found = asdict(evaluate_pretrained(model, [data], config, device=device, progress=flags.progress))
    scores = found[_PRETRAINING[task]]
    lines = [f"  {name:<24} {value:.4f}" for name, value in scores.items()]
    lines.append(f"  on {found['masked_words']:,} hidden words, {found['pairs']:,} pairs: {data}")
    counts = {name: found[name] for name in ("masked_words", "pairs")}
    flags.print({"data": str(data), **counts, **scores}, "\n".join(lines))


def _evaluate_fill(model: Path, data: str, device: str, flags: Flags) -> None:
    from cloze.cli.scores import score_lines
    from cloze.inference.fill import FillMask
    from cloze.inference.fill_evaluation import evaluate_fill

    scores, count = evaluate_fill(FillMask.load(model, device=device), data, progress=flags.progress)
    flags.print(
        {"data": str(data), "examples": count, **scores},
        "\n".join(score_lines(scores, examples=count, data=data)),
    )


def _only(models: tuple[Path, ...]) -> Path:
    first, *others = models
    if others:
        what = "several models answer as one only when they are fine-tuned"
        raise InputError(what, where="--model", remedy="Give one")
    return first
