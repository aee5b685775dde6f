"""How scores are printed: each with what it was computed on."""

from collections.abc import Mapping
from typing import Any


def score_lines(scores: Mapping[str, float], *, examples: int, data: object) -> list[str]:
    """Return a line for each score, and one that says on what they were computed."""
    lines = [f"  {name:<17} {value:.4f}" for name, value in scores.items()]
    return [*lines, f"  on {examples:,} examples: {data}"]


def trials_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return what `trials.json` says: mean and deviation of every setting, the best run, those that learned nothing."""
    metric, best = summary["metric"], summary["best"]
    lines = []
    for setting in summary["settings"]:
        results = setting["results"]
        lines.append(f"  {setting['setting'] or 'all'}, runs: {len(results)}")
        for name, mean in setting["mean"].items():
            spread = f" ± {setting['deviation'][name]:.4f}" if name in setting["deviation"] else ""
            lines.append(f"    {name:<17} {mean:.4f}{spread}")
        collapsed = [f"{result['trial']}: {result['collapse']}" for result in results if "collapse" in result]
        lines += [f"    collapsed         {text}" for text in collapsed]
    lines.append(f"  best by {metric}: {best['trial']}, {best[metric]:.4f}")
    return [*lines, f"  on {summary['examples']:,} examples: {summary['data']}"]
