"""`cloze baseline TASK`: score baselines that need no encoder."""

from dataclasses import asdict
from typing import Any

from cloze.api.labeled import BaselineResult, baseline
from cloze.cli.parser import verb
from cloze.tables import format_score, text_table


@verb(baseline)
def show(result: BaselineResult) -> tuple[dict[str, Any], str]:
    """Return a table of scores."""
    table = {
        "data": result.data,
        "examples": result.num_examples,
        "main_metric": result.task.metrics[0],
        "baselines": [asdict(row) for row in result],
    }
    return table, f"{_format_table(result)}\n  on {result.num_examples:,} examples: {result.data}"


def _format_table(results: BaselineResult) -> str:
    """Return a column for each baseline and size, and a row for each score."""
    rows = [["  training examples", *(f"{result.train_examples:,}" for result in results)]]
    for name in dict.fromkeys(name for result in results for name in result.scores):
        scores = [result.scores.get(name) for result in results]
        rows.append([f"  {name}", *("-" if score is None else format_score(score) for score in scores)])
    rows.append(["  seconds", *(f"{result.seconds:.1f}" for result in results)])
    return text_table(["", *(result.baseline for result in results)], rows)
