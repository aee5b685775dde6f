"""The page of `cloze predict --explain`: texts with their words shaded by what each adds to the prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cloze.evidence.page import format_value, page
from cloze.inference.explain import ExplainedWord, Explanation
from cloze.tasks.texts import LabelledText

MOST_TEXTS = 500
"""On a page; more would be long to scroll and slow to open."""
_STRONGEST = 6


@dataclass(frozen=True, slots=True)
class ExplainedText:
    """A text with why it got its prediction."""

    example: LabelledText
    explanation: Explanation


def explanations_page(texts: Sequence[ExplainedText], *, task: str, model: str) -> str:
    """Return the page, one HTML file that needs no other.

    Args:
        texts: in their order; the first `MOST_TEXTS` are shown.
        task: its name.
        model: where it stands.
    """
    shown = texts[:MOST_TEXTS]
    gaps = [abs(text.explanation.convergence_gap) for text in texts]
    cases = "".join(_case(number, text) for number, text in enumerate(shown, 1))
    return page(
        name=model,
        kind=f"Why it says so: {task}",
        extent=f"{len(texts):,} texts"
        + (f", the first {len(shown):,} shown" if len(shown) < len(texts) else ""),
        tiles=[
            ("Largest convergence gap", format_value(max(gaps, default=0.0)), "logits; 0 is exact"),
            (
                "Steps",
                _range([text.explanation.steps for text in texts]),
                "points on the way from the baseline",
            ),
        ],
        body=f'<h2>Words</h2>\n<p class="note">{_LEGEND}</p>\n{cases}',
        footer="Integrated gradients over the word embeddings (Sundararajan et al. 2017). Written by cloze.",
    )


_LEGEND = (
    'A word <mark class="for" style="--strength:60%">for</mark> the prediction raises its logit, one '
    '<mark class="against" style="--strength:60%">against</mark> it lowers it; the stronger the colour, the more. '
    "What the words add sums, but for the gap, to the change of the logit from a text of [MASK]s to this one."
)


def _case(number: int, text: ExplainedText) -> str:
    found = text.explanation
    strongest = max((abs(word.attribution) for word in found.words), default=0.0)
    shaded = [_shaded(text.example.text, [w for w in found.words if w.segment == "A"], strongest)]
    if text.example.pair is not None:
        shaded.append(_shaded(text.example.pair, [w for w in found.words if w.segment == "B"], strongest))
    ranked = sorted(found.words, key=lambda word: -abs(word.attribution))[:_STRONGEST]
    words = ", ".join(f"{escape(word.word)} {word.attribution:+.3f}" for word in ranked)
    return (
        f'<section class="card instances" aria-labelledby="text-{number}">\n'
        f'<h3 id="text-{number}">{number}. {escape(found.explained)}: logit {found.output:.3f}, '
        f"{found.baseline_output:.3f} for {found.baseline}s; gap {found.convergence_gap:+.1e} "
        f"after {found.steps} steps</h3>\n"
        + "".join(f'<p class="shaded">{each}</p>\n' for each in shaded)
        + f'<p class="note">{words}</p>\n</section>\n'
    )


def _shaded(text: str, words: Sequence[ExplainedWord], strongest: float) -> str:
    """Return the text with its words marked; what stands between them, or was cut off, is plain."""
    parts, end = [], 0
    for word in words:
        kind = "for" if word.attribution >= 0 else "against"
        strength = 100 * abs(word.attribution) / strongest if strongest else 0.0
        parts += [
            escape(text[end : word.start]),
            f'<mark class="{kind}" style="--strength:{strength:.0f}%" title="{word.attribution:+.4f}">'
            f"{escape(text[word.start : word.end])}</mark>",
        ]
        end = word.end
    return "".join([*parts, escape(text[end:])])


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    least, most = min(numbers), max(numbers)
    return f"{least}" if least == most else f"{least} to {most}"
