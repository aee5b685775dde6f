"""Text output of scores and run plans."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.progress import format_duration
from cloze.tables import format_count, format_score

if TYPE_CHECKING:
    from cloze.api.evaluation import EvaluationResult
    from cloze.training.plan import RunPlan


def show_evaluation(result: "EvaluationResult") -> tuple[dict[str, Any], str]:
    """Return the scores of answers and of their classes."""
    from cloze.reports.breakdown_text import format_breakdown

    lines = format_scores(result, examples=result.counts["examples"], data=result.data)
    lines += [] if result.breakdown is None else format_breakdown(result.breakdown)
    return result.to_dict(), "\n".join(lines)


def format_scores(scores: Mapping[str, float], *, examples: int, data: object) -> list[str]:
    """Return a line for each score, and a line with the data."""
    lines = [f"  {name:<17} {format_score(value)}" for name, value in scores.items()]
    return [*lines, f"  on {format_count(examples, 'example')}: {data}"]


def format_trials(summary: Mapping[str, Any]) -> list[str]:
    """Return the content of `trials.json`: mean and deviation of every setting, collapsed runs, the best run."""
    metric, best = summary["metric"], summary["best"]
    lines = []
    for setting in summary["settings"]:
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
    lines = ["time, from a few micro-batches"]
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
