"""What is in a data set, for a person: as text and as a page with pictures."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from cloze import artifacts
from cloze.corpus.audit import Audit
from cloze.corpus.audit_instances import Drawn, Measure, Shown, Token
from cloze.corpus.audit_text import LONG_SENTENCE, Distribution
from cloze.corpus.store import DOMINATING_SHARE
from cloze.evidence.page import card, figure, format_value, page, table, words_table
from cloze.evidence.pictures import TRAIN, draw_picture
from cloze.text.characters import replace_lone_surrogates
from cloze.text.pieces import CONTINUATION

_SPLITS = {"train": "documents to train on", "validation": "documents held out"}
_FREQUENT_IN_TEXT = 20
_REPEATED_IN_TEXT = 3
_TEXT_WIDTH = 110
_MOST_TICKS = 9


def write_audit_page(audit: Audit, output: Path, *, overwrite: bool = False) -> None:
    """Write an audit as one HTML file that needs no other; the same audit gives the same bytes.

    Raises:
        InputError: `output` exists.
        RunError: it cannot be written.
    """
    artifacts.refuse_existing(output, overwrite=overwrite, directory=False)
    text = replace_lone_surrogates(_page(audit))  # of files whose names are not UTF-8
    artifacts.write_text(output, text)


def audit_as_text(audit: Audit) -> str:
    """Return the figures as text for a terminal."""
    counts = audit.counts
    parts = [
        f"{audit.dataset}, {_SPLITS[audit.split]}",
        _columns(*_count_rows(audit)),
        _columns(*_length_rows(audit)),
        _columns(*_copy_rows(audit)),
    ]
    for copies in audit.copies:
        if copies.most_repeated:
            lines = [f"most repeated {copies.of}:"]
            lines += [
                _wrap(f"{times:>6} times  ", text) for text, times in copies.most_repeated[:_REPEATED_IN_TEXT]
            ]
            parts.append("\n".join(lines))
    parts += [f"{_drawn_title(drawn)}\n{_columns(*_measure_rows(drawn))}" for drawn in audit.drawn]
    frequent = audit.frequent_pieces[:_FREQUENT_IN_TEXT]
    pieces = "  ".join(f"{piece} {count / counts.pieces:.2%}" for piece, count in frequent)
    parts.append(_wrap("most frequent pieces: ", pieces))
    parts += [_shown_as_text(shown) for shown in audit.shown]
    if audit.cleaning is not None:
        parts.append(_cleaning_as_text(audit.cleaning))
    return "\n\n".join(parts)


Rows = tuple[Sequence[str], list[Sequence[str]]]
"""Names of columns, and rows of cells."""


def _count_rows(audit: Audit) -> Rows:
    counts = audit.counts
    rows: list[Sequence[str]] = [
        ["documents", f"{counts.documents:,}", ""],
        ["sentences", f"{counts.sentences:,}", ""],
        ["words", f"{counts.words:,}", "pieces without ##: punctuation and [UNK] too"],
        ["pieces", f"{counts.pieces:,}", ""],
        ["fertility", f"{counts.fertility:.4f}", "pieces a word"],
        ["[UNK]", f"{counts.unknown_share:.4%}", "of the pieces"],
        ["vocabulary in use", f"{counts.pieces_in_use:,}", f"of {counts.vocab_size:,} pieces"],
    ]
    warning = ", warning: little else is learned from" if audit.largest_share > DOMINATING_SHARE else ""
    rows.append(["largest document", f"{audit.largest_share:.2%}", f"of the pieces{warning}"])
    if audit.held_out_seen is not None:
        note = f"of the held-out sentences of {LONG_SENTENCE} pieces or more stand in training, too"
        rows.append(["seen in training", f"{audit.held_out_seen:.2%}", note])
    return ["counts", "", ""], rows


def _length_rows(audit: Audit) -> Rows:
    spreads = {
        "pieces a sentence": audit.sentence_pieces,
        "sentences a document": audit.document_sentences,
        "pieces a document": audit.document_pieces,
    }
    spreads |= {f"tokens of {drawn.max_seq_length} at most": drawn.lengths for drawn in audit.drawn}
    columns = ["lengths", "mean", *audit.sentence_pieces.quantiles]
    rows: list[Sequence[str]] = [
        [name, f"{spread.mean:,.1f}", *(f"{value:,}" for value in spread.quantiles.values())]
        for name, spread in spreads.items()
    ]
    return columns, rows


def _copy_rows(audit: Audit) -> Rows:
    rows: list[Sequence[str]] = [
        [
            copies.of,
            f"{copies.number:,}",
            f"{copies.copies:,}",
            f"{copies.copies / max(copies.number, 1):.2%}",
            f"{copies.share_of_pieces:.2%}",
        ]
        for copies in audit.copies
    ]
    return ["exact copies of", "in all", "copies", "share", "of their pieces"], rows


def _drawn_title(drawn: Drawn) -> str:
    return (
        f"instances of {drawn.max_seq_length} tokens: {drawn.instances:,} an epoch, lengths and masks measured on "
        f"the first {drawn.sampled:,}; at most {drawn.max_predictions_per_seq} predictions; "
        f"{drawn.skipped_documents:,} documents of one sentence left out"
    )


def _measure_rows(drawn: Drawn) -> Rows:
    rows: list[Sequence[str]] = [
        [
            measure.name,
            _amount(measure, measure.measured),
            "" if measure.expected is None else _amount(measure, measure.expected),
            "" if measure.holds else "differs",
        ]
        for measure in drawn.measures
    ]
    return [f"of {drawn.max_seq_length} tokens", "measured", "expected", ""], rows


def _amount(measure: Measure, value: float) -> str:
    return f"{value:.2%}" if measure.unit == "share" else f"{value:.4f}"


def _columns(columns: Sequence[str], rows: list[Sequence[str]]) -> str:
    """Align a table: names to the left, figures to the right."""
    every = [columns, *rows]
    widths = [max(len(row[i]) for row in every) for i in range(len(columns))]
    lines = (
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in every
    )
    return "\n".join(line.rstrip() for line in lines)


def _wrap(label: str, text: str) -> str:
    """Put a label before a text, and the text's further lines under its first."""
    return textwrap.fill(
        text,
        _TEXT_WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _shown_title(shown: Shown) -> str:
    label = "one segment" if shown.label is None else shown.label
    plural = "s" if len(set(shown.documents)) > 1 else ""
    numbers = " and ".join(f"{number:,}" for number in dict.fromkeys(shown.documents))
    return f"instance {shown.position}, {label}, from document{plural} {numbers}"


def _shown_as_text(shown: Shown) -> str:
    lines = [_shown_title(shown)]
    for name, segment in zip("AB", shown.segments, strict=False):
        words = "".join(space + _token_as_text(token) for space, token in _spaced(segment))
        lines.append(_wrap(f"  {name}  ", words))
    return "\n".join(lines)


def _token_as_text(token: Token) -> str:
    """Write what is read, and in angle brackets what is to be predicted.

    >>> _token_as_text(Token("##ing", None)), _token_as_text(Token("[MASK]", "##ing"))
    ('ing', '[MASK]‹##ing›')
    """
    return token.read.removeprefix(CONTINUATION) if token.target is None else f"{token.read}‹{token.target}›"


def _spaced(segment: Sequence[Token]) -> Iterator[tuple[str, Token]]:
    """Yield each token after the space before it: none where a word goes on."""
    for number, token in enumerate(segment):
        goes_on = (token.target or token.read).startswith(CONTINUATION)
        yield "" if goes_on or not number else " ", token


def _page(audit: Audit) -> str:
    counts, documents = audit.counts, audit.copies[-1]
    held = [
        measure.holds for drawn in audit.drawn for measure in drawn.measures if measure.expected is not None
    ]
    tiles = [
        ("Documents", f"{counts.documents:,}", f"{counts.sentences:,} sentences"),
        ("Pieces", f"{counts.pieces:,}", f"{counts.words:,} words"),
        ("Pieces a word", format_value(counts.fertility), "a word is a piece without ##"),
        ("[UNK]", f"{counts.unknown_share:.3%}", "of the pieces"),
        ("Copies of documents", f"{documents.copies:,}", f"{documents.share_of_pieces:.2%} of the pieces"),
        ("As expected", f"{sum(held)} of {len(held)}", "measures of pairs and masks"),
    ]
    body = (
        _figures(audit)
        + f"<h2>Counts, lengths and copies</h2>\n{card(table('', *_count_rows(audit)))}"
        + card(table("", *_length_rows(audit)))
        + card(table("", *_copy_rows(audit)))
        + _repeated(audit)
        + "<h2>What training draws</h2>\n"
        + "".join(_drawn(drawn) for drawn in audit.drawn)
        + _frequent(audit)
        + _instances(audit)
        + _cleaning(audit.cleaning)
    )
    return page(
        name=Path(audit.dataset).resolve().name,
        kind="data set",
        extent=_SPLITS[audit.split],
        tiles=tiles,
        body=body,
        footer="Written by <code>cloze corpus audit</code>.",
    )


def _figures(audit: Audit) -> str:
    bars = [
        ("sentence-pieces", "Pieces a sentence", audit.sentence_pieces),
        ("document-pieces", "Pieces a document", audit.document_pieces),
        ("document-sentences", "Sentences a document", audit.document_sentences),
    ]
    bars += [
        (f"tokens-{drawn.max_seq_length}", f"Tokens of a sequence of {drawn.max_seq_length}", drawn.lengths)
        for drawn in audit.drawn
    ]
    pictures = [figure(name, title, draw_picture(name, _bars(spread))) for name, title, spread in bars]
    name = "piece-frequencies"
    pictures.append(figure(name, "Count of a piece by its rank", draw_picture(name, _ranks(audit))))
    note = "A bar is labelled with the least length in it."
    return (
        f'<h2>Pictures</h2>\n<p class="note">{note}</p>\n<div class="figures">\n{"".join(pictures)}</div>\n'
    )


def _bars(spread: Distribution) -> Callable[[Axes], None]:
    def plot(axes: Axes) -> None:
        places = range(len(spread.bin_starts))
        axes.bar(places, spread.bin_counts, width=0.86, color=TRAIN)
        step = -(-len(places) // _MOST_TICKS)
        axes.set_xticks(places[::step], [f"{start:,}" for start in spread.bin_starts[::step]])
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))

    return plot


def _ranks(audit: Audit) -> Callable[[Axes], None]:
    def plot(axes: Axes) -> None:
        ranks, counts = zip(*audit.counts_at_ranks, strict=True)
        axes.plot(ranks, counts, color=TRAIN, marker="o")
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(numticks=6))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_xlabel("rank")

    return plot


def _repeated(audit: Audit) -> str:
    tables = "".join(
        card(table(f"Most repeated {copies.of}", ["text", "times"], rows))
        for copies in audit.copies
        if (rows := [(text, f"{times:,}") for text, times in copies.most_repeated])
    )
    return tables and f"<details><summary>What is repeated</summary>\n{tables}</details>\n"


def _drawn(drawn: Drawn) -> str:
    note = f'<p class="note">{escape(_drawn_title(drawn))}.</p>\n'
    return note + card(table("", *_measure_rows(drawn)))


def _frequent(audit: Audit) -> str:
    rows = [
        (piece, f"{count:,}", f"{count / audit.counts.pieces:.2%}") for piece, count in audit.frequent_pieces
    ]
    frequent = card(table("", ["piece", "times", "share"], rows))
    return f"<h2>Most frequent pieces</h2>\n<details><summary>{len(rows)} pieces</summary>\n{frequent}</details>\n"


def _instances(audit: Audit) -> str:
    if not audit.shown:
        return ""
    note = "Marked is what is to be predicted: what the model reads there, and below it what stood there."
    shown = "".join(
        f"<h3>{escape(_shown_title(shown))}</h3>\n"
        + "".join(
            f"<p><b>{name}</b> {_segment(segment)}</p>\n"
            for name, segment in zip("AB", shown.segments, strict=False)
        )
        for shown in audit.shown
    )
    return f'<h2>Instances</h2>\n<p class="note">{note}</p>\n<div class="card instances">\n{shown}</div>\n'


def _segment(segment: Sequence[Token]) -> str:
    return "".join(space + _token_as_html(token) for space, token in _spaced(segment))


def _token_as_html(token: Token) -> str:
    if token.target is None:
        return escape(token.read.removeprefix(CONTINUATION))
    return f"<mark>{escape(token.read)}<i>{escape(token.target)}</i></mark>"


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step of the cleaning did, as `report.json` tells it."""

    name: str
    counts: str
    examples: Sequence[Mapping[str, str]]


def _steps(report: Mapping[str, Any], name: str = "") -> Iterator[_Step]:
    """Yield the steps that did something. A step is what has examples, wherever it stands in the report."""
    if "examples" in report:
        counts = {key: value for key, value in report.items() if isinstance(value, int)}
        if any(counts.values()):
            told = ", ".join(f"{value:,} {key}" for key, value in counts.items())
            yield _Step(name.replace("_", " "), told, report["examples"])
        return
    for key, value in report.items():
        if isinstance(value, Mapping):
            yield from _steps(value, key)
        elif isinstance(value, list):  # a data set that was appended to has several reports
            for item in value:
                yield from _steps(item, key)


def _example(example: Mapping[str, str]) -> str:
    return " · ".join(f"{key}: {value}" for key, value in example.items() if key != "where")


def _cleaning(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return ""
    steps = list(_steps(report))
    title = "<h2>What cleaning did</h2>\n"
    if not steps:
        return f'{title}<p class="note">Nothing.</p>\n'
    examples = [
        (step.name, example["where"], _example(example)) for step in steps for example in step.examples
    ]
    done = card(words_table("", [(step.name, step.counts) for step in steps]))
    return f"{title}{done}{card(table('Examples', ['step', 'where', 'what'], examples))}"


def _cleaning_as_text(report: Mapping[str, Any]) -> str:
    lines = ["what cleaning did:"]
    for step in _steps(report):
        lines.append(_wrap(f"  {step.name}: ", step.counts))
        lines += [_wrap("    ", f"{example['where']} · {_example(example)}") for example in step.examples]
    return "\n".join(lines if len(lines) > 1 else ["what cleaning did: nothing"])
