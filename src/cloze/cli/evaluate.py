"""`cloze evaluate`: score a model on labeled data or on held-out text."""

from typing import Any

from cloze.api.evaluation import EvaluationResult, evaluate
from cloze.cli.output import show_evaluation
from cloze.cli.parser import verb


@verb(evaluate)
def show(result: EvaluationResult) -> tuple[dict[str, Any], str]:
    """Return the scores of a model, of its classes or of parts of the data."""
    if "masked_words" in result.counts:
        rows, width = dict(result), 24
        counts = "{masked_words:,} masked tokens, {pairs:,} pairs".format(**result.counts)
    elif "num_pairs" in result.counts:
        rows = {**result.parts["paradigms"], **result.parts["fields"], **result}
        width, counts = max(map(len, rows)), "{num_pairs:,} pairs".format(**result.counts)
    else:
        return show_evaluation(result)
    lines = [f"  {name:<{width}} {value:.4f}" for name, value in rows.items()]
    return result.to_dict(), "\n".join([*lines, f"  on {counts}: {result.data}"])
