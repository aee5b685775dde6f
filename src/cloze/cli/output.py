"""Text output of scores and run plans."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.progress import format_duration
from cloze.tables import format_count, format_score, text_table

if TYPE_CHECKING:
    from cloze.api.evaluation import EvaluationResult
    from cloze.training.plan import RunPlan


def show_evaluation(result: "EvaluationResult") -> tuple[dict[str, Any], str]:
    """Return the scores of answers and of their classes."""
    from cloze.reports.breakdown_text import format_breakdown

    lines = format_scores(result, examples=result.counts["examples"], data=result.data)
    shown = result.to_dict()
    lines[-1:-1] = format_calibration(shown)
    lines += [] if result.breakdown is None else format_breakdown(result.breakdown)
    return shown, "\n".join(lines)


def format_calibration(result: Mapping[str, Any]) -> list[str]:
    """Return a line with the temperature and the calibration error of a result that has them."""
    if (calibration := result.get("calibration")) is None:
        return []
    before, error = (format_score(calibration[name]) for name in ("error_before", "error"))
    return [f"  calibration error {error} at temperature {calibration['temperature']:.3g}, {before} at 1"]


def format_scores(scores: Mapping[str, float], *, examples: int, data: object) -> list[str]:
    """Return a line for each score, and a line with the data."""
    lines = [f"  {name:<17} {format_score(value)}" for name, value in scores.items()]
    return [*lines, f"  on {format_count(examples, 'example')}: {data}"]


def format_trials(summary: Mapping[str, Any]) -> list[str]:
    """Return the content of `trials.json`: mean and deviation of every setting, collapsed runs, the best run."""
    metric, best = summary["metric"], summary["best"]
    lines, settings = [], summary["settings"]
    if all("data_fraction" in setting for setting in settings):
        lines, settings = format_curve(settings, metric, summary["examples"]), []
    for setting in settings:
        results = setting["results"]
        lines.append(f"  {setting['setting'] or 'all'}, runs: {len(results)}")
        for name, mean in setting["mean"].items():
            deviation = (
                f" ± {format_score(setting['deviation'][name])}" if name in setting["deviation"] else ""
            )
            lines.append(f"    {name:<17} {format_score(mean)}{deviation}")
        collapsed = [f"{result['trial']}: {result['collapse']}" for result in results if "collapse" in result]
        lines += [f"    collapsed         {text}" for text in collapsed]
    lines.append(f"  best by {metric}: {best['trial']}, {format_score(best[metric])}")
    return [*lines, f"  on {summary['examples']:,} examples: {summary['data']}"]


def format_curve(settings: Sequence[Mapping[str, Any]], metric: str, examples: int) -> list[str]:
    """Return the scores by amount of training data as a table, and what the last step added."""
    settings = sorted(settings, key=lambda setting: (setting["train_examples"], setting["setting"]))
    is_grid = len({setting["train_examples"] for setting in settings}) < len(settings)
    names = list(settings[0]["mean"])

    def cell(setting: Mapping[str, Any], name: str) -> str:
        deviation = f" ± {format_score(setting['deviation'][name])}" if name in setting["deviation"] else ""
        return f"{format_score(setting['mean'][name])}{deviation}"

    rows = [
        [
            setting["setting"] if is_grid else f"{setting['data_fraction']:g}",
            f"{setting['train_examples']:,}",
            *(cell(setting, name) for name in names),
        ]
        for setting in settings
    ]
    lines = text_table(["setting" if is_grid else "share", "train examples", *names], rows).split("\n")
    if not is_grid and len(settings) > 1:
        before, last = (setting["mean"][metric] for setting in settings[-2:])
        change = f"{metric} {last - before:+.4g} from {rows[-2][1]} to {rows[-1][1]} training examples"
        lines.append(f"{change}; {format_count(examples, 'dev example')}")
    return [f"  {line}" for line in lines]


def show_settings(toml: str) -> None:
    """Print the result of `--print-config`."""
    print(toml, end="")


def show_plan(plan: "RunPlan") -> tuple[dict[str, Any], str]:
    """Return the result of `--dry-run`: memory and time of a run."""
    table = asdict(plan)
    table["phases"] = [asdict(phase) | {"seconds": phase.seconds} for phase in plan.phases]
    table["seconds"] = plan.seconds
    lines = ["dry run: nothing was written", *_format_memory(plan), *_format_time(plan)]
    return table, "\n".join(lines)


def _format_memory(plan: "RunPlan") -> list[str]:
    rows = {"peak": plan.peak_memory, "free before": plan.available_memory}
    return [
        f"memory, {plan.dtype} on {plan.device}, micro-batches of up to {plan.micro_batch_tokens:,} tokens",
        *(f"  {name:<11} {_format_bytes(size):>9}" for name, size in rows.items() if size is not None),
    ]


def _format_time(plan: "RunPlan") -> list[str]:
    lines = ["time, from the first steps"]
    for phase in plan.phases:
        steps = f"{phase.steps:,} steps of {phase.tokens:,} tokens, {phase.step_seconds:.3g} s each"
        lines.append(f"  {phase.name}: {steps}: {format_duration(phase.seconds)}")
    lines.append(f"  evaluations: {format_duration(plan.evaluation_seconds)}")
    runs = f", {plan.runs} runs" if plan.runs > 1 else ""
    return [*lines, f"  total{runs}: {format_duration(plan.seconds)}"]


def _format_bytes(num_bytes: int) -> str:
    """Write a number of bytes with a unit.

    >>> _format_bytes(4_300_000), _format_bytes(12_345_000_000)
    ('4.3 MB', '12.3 GB')
    """
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
