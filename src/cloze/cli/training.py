"""Verbs that train and score: demo, examples, pretrain, finetune, baseline, evaluate and score."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.cli.parser import Shown, Verb, verb
from cloze.progress import format_duration
from cloze.tables import format_count, format_score, text_table

if TYPE_CHECKING:  # not needed for --help
    from cloze.api.evaluation import EvaluationResult
    from cloze.api.finetuning import FinetuneResult
    from cloze.api.labeled import BaselineResult
    from cloze.demo.pipeline import DemoResult
    from cloze.training.plan import RunPlan


_MAX_ENTRIES, _MAX_SUSPECTS = 20, 3


def _show_settings(toml: str) -> None:
    print(toml, end="")


def _show_plan(plan: "RunPlan") -> Shown:
    table = asdict(plan)
    table["phases"] = [asdict(phase) | {"seconds": phase.seconds} for phase in plan.phases]
    table["seconds"] = plan.seconds
    lines = [
        "dry run: nothing was written",
        f"memory, {plan.dtype} on {plan.device}, micro-batches of up to {plan.micro_batch_tokens:,} tokens",
    ]
    for name, size in (("peak", plan.peak_memory), ("free before", plan.available_memory)):
        if size is not None:
            shown = f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
            lines.append(f"  {name:<11} {shown:>9}")
    lines.append("time, from the first steps")
    for phase in plan.phases:
        steps = f"{phase.steps:,} steps of {phase.tokens:,} tokens, {phase.step_seconds:.3g} s each"
        lines.append(f"  {phase.name}: {steps}: {format_duration(phase.seconds)}")
    runs = f", {plan.runs} runs" if plan.runs > 1 else ""
    lines.append(f"  evaluations: {format_duration(plan.evaluation_seconds)}")
    lines.append(f"  total{runs}: {format_duration(plan.seconds)}")
    return table, "\n".join(lines)


@verb("demo", "run_demo")
def _show_demo(result: "DemoResult") -> Shown:
    return asdict(result) | {"reports": [str(path) for path in result.reports]}, result.text


@verb("examples", "write_examples")
def _show_examples(directory: Path) -> Shown:
    names = sorted(f"{directory / name}" for name in ("authors.csv", "other-books.csv", "novels"))
    return {"files": names}, f"wrote {', '.join(names)}"


@verb(
    "pretrain",
    "pretrain",
    {
        "print_config": Verb("pretraining_settings", _show_settings),
        "dry_run": Verb("plan_pretraining", _show_plan),
    },
    is_distributed=True,
)
def _show_pretrain(metrics: dict[str, float], output: str | Path) -> Shown:
    width = max(24, *map(len, metrics))
    lines = [f"wrote {output}", *(f"  {name:<{width}} {value:.4f}" for name, value in metrics.items())]
    return {"run": str(output), **metrics}, "\n".join(lines)


def _show_data(summary: Mapping[str, Any]) -> Shown:
    texts = {name: _as_text(value) for name, value in summary.items() if name != "findings"}  # told already
    lines = ["the data are valid", *(f"  {name:<16} {text}" for name, text in texts.items() if text)]
    return summary, "\n".join(lines)


@verb(
    "finetune",
    "finetune",
    {
        "validate": Verb("validate_data", _show_data),
        "print_config": Verb("finetuning_settings", _show_settings),
        "dry_run": Verb("plan_finetuning", _show_plan),
    },
    is_distributed=True,
)
def _show_finetune(result: "FinetuneResult") -> Shown:
    from cloze.finetuning.finetune import extract_scores

    report = result.report
    if "settings" in report:
        lines = _format_trials(report)
    else:
        lines = _format_scores(extract_scores(report), examples=report["examples"], data=report["data"])
        lines[-1:-1] = _format_calibration(report)
        if "collapse" in report:
            lines.append(f"  the model learned nothing: {report['collapse']}")
    return {"run": str(result.path), **report}, "\n".join([f"wrote {result.path}", *lines])


def _as_text(value: object) -> str:
    """Return a value for people: of a table the entries that are set, and of many entries the first.

    >>> _as_text({"text_column": "note", "labels": ["no", "yes"], "balanced": False})
    'text_column note, labels [no, yes]'
    """
    if isinstance(value, Mapping):
        return _first([f"{key} {_as_text(entry)}" for key, entry in value.items() if entry])
    return f"[{_first([*map(str, value)])}]" if isinstance(value, list) else str(value)


def _first(texts: Sequence[str]) -> str:
    return ", ".join([*texts[:_MAX_ENTRIES], *["…"] * (len(texts) > _MAX_ENTRIES)])


@verb("baseline", "baseline")
def _show_baseline(result: "BaselineResult") -> Shown:
    table = {
        "data": result.data,
        "examples": result.num_examples,
        "main_metric": result.task.metrics[0],
        "baselines": [asdict(row) for row in result],
    }
    return table, f"{_format_table(result)}\n  on {result.num_examples:,} examples: {result.data}"


def _format_table(results: "BaselineResult") -> str:
    """Return a column for each baseline and size, and a row for each score."""
    rows = [["  training examples", *(f"{result.train_examples:,}" for result in results)]]
    for name in dict.fromkeys(name for result in results for name in result.scores):
        scores = [result.scores.get(name) for result in results]
        rows.append([f"  {name}", *("-" if score is None else format_score(score) for score in scores)])
    rows.append(["  seconds", *(f"{result.seconds:.1f}" for result in results)])
    return text_table(["", *(result.baseline for result in results)], rows)


@verb("evaluate", "evaluate")
def _show_evaluate(result: "EvaluationResult") -> Shown:
    if "masked_words" in result.counts:
        rows, width = dict(result), 24
        counts = "{masked_words:,} masked tokens, {pairs:,} pairs".format(**result.counts)
    elif "num_pairs" in result.counts:
        rows = {**result.parts["paradigms"], **result.parts["fields"], **result}
        width, counts = max(map(len, rows)), "{num_pairs:,} pairs".format(**result.counts)
    else:
        return _show_score(result)
    lines = [f"  {name:<{width}} {value:.4f}" for name, value in rows.items()]
    return result.to_dict(), "\n".join([*lines, f"  on {counts}: {result.data}"])


@verb("score", "score")
def _show_score(result: "EvaluationResult") -> Shown:
    from cloze.reports.breakdown_text import format_breakdown

    lines = _format_scores(result, examples=result.counts["examples"], data=result.data)
    shown = result.to_dict()
    lines[-1:-1] = _format_calibration(shown)
    lines += [] if result.breakdown is None else format_breakdown(result.breakdown)
    return shown, "\n".join(lines)


def _format_calibration(result: Mapping[str, Any]) -> list[str]:
    if (calibration := result.get("calibration")) is None:
        return []
    before, error = (format_score(calibration[name]) for name in ("error_before", "error"))
    return [f"  calibration error {error} at temperature {calibration['temperature']:.3g}, {before} at 1"]


def _format_scores(scores: Mapping[str, float], *, examples: int, data: object) -> list[str]:
    lines = [f"  {name:<17} {format_score(value)}" for name, value in scores.items()]
    return [*lines, f"  on {format_count(examples, 'example')}: {data}"]


def _format_trials(summary: Mapping[str, Any]) -> list[str]:
    """Return the content of `trials.json`: mean and deviation of every setting, collapsed runs, the best run."""
    metric, best = summary["metric"], summary["best"]
    lines, settings = [], summary["settings"]
    if all("data_fraction" in setting for setting in settings):
        lines, settings = _format_curve(settings, metric, summary["examples"]), []
    for setting in settings:
        results = setting["results"]
        lines.append(f"  {setting['setting'] or 'all'}, runs: {len(results)}")
        for name in setting["mean"]:
            lines.append(f"    {name:<17} {_format_mean(setting, name)}")
        collapsed = [f"{result['trial']}: {result['collapse']}" for result in results if "collapse" in result]
        lines += [f"    collapsed         {text}" for text in collapsed]
    lines.append(f"  best by {metric}: {best['trial']}, {format_score(best[metric])}")
    if suspects := summary.get("suspects"):
        lines.append(f"  labels that are probably wrong: {len(suspects):,}, all in {summary['out_of_fold']}")
        lines += [f"    row {suspect['row']}: {suspect['reason']}" for suspect in suspects[:_MAX_SUSPECTS]]
    return [*lines, f"  on {summary['examples']:,} examples: {summary['data']}"]


def _format_mean(setting: Mapping[str, Any], name: str) -> str:
    deviation = f" ± {format_score(setting['deviation'][name])}" if name in setting["deviation"] else ""
    return f"{format_score(setting['mean'][name])}{deviation}"


def _format_curve(settings: Sequence[Mapping[str, Any]], metric: str, examples: int) -> list[str]:
    """Return the scores by amount of training data as a table, and what the last step added."""
    settings = sorted(settings, key=lambda setting: (setting["train_examples"], setting["setting"]))
    is_grid = len({setting["train_examples"] for setting in settings}) < len(settings)
    names = list(settings[0]["mean"])
    rows = [
        [
            setting["setting"] if is_grid else f"{setting['data_fraction']:g}",
            f"{setting['train_examples']:,}",
            *(_format_mean(setting, name) for name in names),
        ]
        for setting in settings
    ]
    lines = text_table(["setting" if is_grid else "share", "train examples", *names], rows).split("\n")
    if not is_grid and len(settings) > 1:
        before, last = (setting["mean"][metric] for setting in settings[-2:])
        change = f"{metric} {last - before:+.4g} from {rows[-2][1]} to {rows[-1][1]} training examples"
        lines.append(f"{change}; {format_count(examples, 'dev example')}")
    return [f"  {line}" for line in lines]
