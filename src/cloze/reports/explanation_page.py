"""HTML page of `cloze predict --explain`: texts with their words shaded by attribution."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from cloze.file_io import write_text
from cloze.inference.explain import ExplainedWord, Explanation
from cloze.reports.page import format_value, render_page, section
from cloze.tasks.texts import LabeledText
from cloze.tokenization.unicode import replace_lone_surrogates

MAX_TEXTS = 500
"""Texts on a page; more would be slow to open."""
_LISTED_WORDS = 6
_LEGEND = (
    'A word <mark class="for" style="--strength:60%">for</mark> the prediction raises its logit, a word '
    '<mark class="against" style="--strength:60%">against</mark> it lowers it; a stronger color means more. '
    "The attributions add up, except for the gap, to the difference of the logit from that of a text of [MASK]s."
)


@dataclass(frozen=True, slots=True)
class ExplainedText:
    """A text with the explanation of its prediction."""

    example: LabeledText
    explanation: Explanation


def write_explanations(path: Path, texts: Sequence[ExplainedText], *, task: str, model: str) -> None:
    """Write the page of `explanations_page`."""
    write_text(path, replace_lone_surrogates(explanations_page(texts, task=task, model=model)))


def explanations_page(texts: Sequence[ExplainedText], *, task: str, model: str) -> str:
    """Return one HTML file without external resources.

    Args:
        texts: in order; the first `MAX_TEXTS` are shown.
        task: name of the task.
        model: name or path of the model.
    """
    shown = texts[:MAX_TEXTS]
    gaps = [abs(text.explanation.convergence_gap) for text in texts]
    steps = sorted({text.explanation.steps for text in texts})
    extent = f"{len(texts):,} texts"
    return render_page(
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
        body=section("Words", *(_card(number, text) for number, text in enumerate(shown, 1)), note=_LEGEND),
        footer="Integrated gradients over the word embeddings (Sundararajan et al. 2017). Written by cloze.",
    )


def _card(number: int, text: ExplainedText) -> str:
    example, explanation = text.example, text.explanation
    ranked = sorted(explanation.words, key=lambda word: -abs(word.attribution))
    largest = abs(ranked[0].attribution) if ranked else 0.0
    shaded = "".join(
        f'<p class="shaded">{_shade(segment, [w for w in explanation.words if w.segment == name], largest)}</p>\n'
        for name, segment in (("A", example.text), ("B", example.pair))
        if segment is not None
    )
    words = ", ".join(f"{escape(word.word)} {word.attribution:+.3f}" for word in ranked[:_LISTED_WORDS])
    return (
        f'<section class="card instances" aria-labelledby="text-{number}">\n'
        f'<h3 id="text-{number}">{number}. {escape(explanation.explained)}: logit {explanation.output:.3f}, '
        f"{explanation.baseline_output:.3f} for {explanation.baseline}s; gap {explanation.convergence_gap:+.1e} "
        f'after {explanation.steps} steps</h3>\n{shaded}<p class="note">{words}</p>\n</section>\n'
    )


def _shade(text: str, words: Sequence[ExplainedWord], largest: float) -> str:
    """Return the text with its words marked; truncated words are plain."""
    parts, end = [], 0
    for word in words:
        css = "for" if word.attribution >= 0 else "against"
        strength = 100 * abs(word.attribution) / largest if largest else 0.0
        parts += [
            escape(text[end : word.start]),
            f'<mark class="{css}" style="--strength:{strength:.0f}%" title="{word.attribution:+.4f}">'
            f"{escape(text[word.start : word.end])}</mark>",
        ]
        end = word.end
    return "".join([*parts, escape(text[end:])])
