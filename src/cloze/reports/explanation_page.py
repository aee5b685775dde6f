"""HTML page of `cloze predict --explain`: texts with their words shaded by attribution."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from cloze.inference.explain import Explanation
from cloze.reports.page import format_value, write_page
from cloze.tables import format_count
from cloze.tasks.texts import LabeledText

MAX_TEXTS = 500
"""Texts on a page; more would be slow to open."""


ExplainedText: TypeAlias = tuple[LabeledText, Explanation]
"""A text, and the explanation of its prediction."""


def write_explanations(path: Path, texts: Sequence[ExplainedText], *, task: str, model: str) -> None:
    """Write the first `MAX_TEXTS` explained texts as one HTML file without external resources."""
    shown = texts[:MAX_TEXTS]
    gaps = [abs(explanation.convergence_gap) for _, explanation in texts]
    steps = sorted({explanation.steps for _, explanation in texts})
    extent = format_count(len(texts), "text")
    write_page(
        path,
        "explanations",
        [
            {"texts": [text.text, *([] if text.pair is None else [text.pair])], **asdict(explanation)}
            for text, explanation in shown
        ],
        name=model,
        kind=f"Explanations: {task}",
        extent=extent if len(shown) == len(texts) else f"{extent}, the first {len(shown):,} shown",
        tiles=[
            ("Largest convergence gap", format_value(max(gaps, default=0.0)), "logits; 0 is exact"),
            (
                "Steps",
                " to ".join(map(str, dict.fromkeys([*steps[:1], *steps[-1:]]))) or "0",
                "from the baseline",
            ),
        ],
    )
