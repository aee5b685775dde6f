"""`cloze predict`: print predictions of a fine-tuned model, of a file as JSON lines."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cloze.api.predictions import find_inputs, predict_file
from cloze.cli.options import CommonOptions
from cloze.cli.parser import verb

_MAX_CLASSES = 5


@verb(predict_file)
def show(
    rows: Iterator[dict[str, Any]],
    *,
    task_or_input: str | Path,
    inputs: Sequence[str | Path],
    explain: bool,
    flags: CommonOptions,
) -> None:
    """Print the rows as they are computed, those of texts for people unless JSON or explanations are asked for."""
    from cloze.data.row_files import write_json_lines

    if flags.json or explain or not find_inputs(task_or_input, inputs)[2]:
        write_json_lines(rows, sys.stdout)
        return
    for row in rows:
        flags.print(row, "\n".join([row["text"], *(f"  {line}" for line in _describe(row))]))


def _describe(row: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of an answer."""
    probabilities = row.get("probabilities", {})
    best = sorted(probabilities.items(), key=lambda item: -item[1])
    shown = [f"{label} {probability:.3f}" for label, probability in best[:_MAX_CLASSES]]
    others = [f"and {len(best) - _MAX_CLASSES} more"] if best[_MAX_CLASSES:] else []
    if "labels" in row:
        yield f"labels: {', '.join(row['labels']) or 'none'}"
    if "score" in row:
        yield f"score {row['score']:.4g}"
    if shown:
        yield "  ".join([*shown, *others])
    for entity in row.get("entities", []):
        yield f"{entity['type']} {entity['probability']:.3f}  {entity['text']}"
    if row.get("entities") == []:
        yield "no entities"
