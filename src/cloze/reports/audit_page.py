"""The audit of a data set as text and as an HTML page with plots."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from markupsafe import Markup

from cloze.data.audit import Audit, Distribution, InstanceExample, InstanceStats, Token
from cloze.reports.page import Table, format_value, write_page
from cloze.tables import text_table
from cloze.tokenization.special_tokens import CONTINUATION

_SPLITS = {"train": "training documents", "validation": "held-out documents"}
_FREQUENT_IN_TEXT = 20
_TEXT_WIDTH = 110

AnyText = TypeVar("AnyText", str, Markup)


def format_audit(audit: Audit) -> str:
    """Return the audit as text for a terminal."""
    parts = [
        f"{audit.dataset}, {_SPLITS[audit.split]}",
        _format_table(_counts(audit)),
        _format_table(_lengths(audit)),
        *(f"{_describe_instances(drawn)}\n{_format_table(_measures(drawn))}" for drawn in audit.drawn),
    ]
    frequent = audit.frequent_tokens[:_FREQUENT_IN_TEXT]
    tokens = "  ".join(f"{token} {count / audit.counts.tokens:.2%}" for token, count in frequent)
    parts.append(_wrap("most frequent tokens: ", tokens))
    for shown in audit.shown:
        segments = zip("AB", shown.segments, strict=False)
        lines = [_wrap(f"  {name}  ", _join_tokens(segment, "{}‹{}›")) for name, segment in segments]
        parts.append("\n".join([_describe_instance(shown), *lines]))
    if audit.cleaning is not None:
        lines = [_wrap(f"  {name}: ", counts) for name, counts in _cleaning_steps(audit.cleaning)]
        parts.append("\n".join(["cleaning:", *lines]) if lines else "cleaning: nothing was changed")
    return "\n\n".join(parts)


def _format_table(table: Table) -> str:
    return text_table(table.columns, table.rows)


def _counts(audit: Audit) -> Table:
    counts = audit.counts
    rows: list[Sequence[str]] = [
        ["documents", f"{counts.documents:,}", ""],
        ["sentences", f"{counts.sentences:,}", ""],
        ["words", f"{counts.words:,}", "tokens without ##, with punctuation and [UNK]"],
        ["tokens", f"{counts.tokens:,}", ""],
        ["fertility", f"{counts.fertility:.4f}", "tokens per word"],
        ["[UNK]", f"{counts.unknown_share:.4%}", "of the tokens"],
        ["vocabulary in use", f"{counts.tokens_in_use:,}", f"of {counts.vocab_size:,} tokens"],
    ]
    return Table(["counts", "", ""], rows)


def _all_lengths(audit: Audit) -> list[tuple[str, str, str, Distribution]]:
    """Return name, unit, what is counted, and the lengths of sentences, documents and sequences."""
    return [
        ("tokens per sentence", "tokens", "sentences", audit.sentence_tokens),
        ("sentences per document", "sentences", "documents", audit.document_sentences),
        ("tokens per document", "tokens", "documents", audit.document_tokens),
        *(
            (f"tokens per sequence, at most {drawn.max_seq_length}", "tokens", "sequences", drawn.lengths)
            for drawn in audit.drawn
        ),
    ]


def _lengths(audit: Audit) -> Table:
    rows = [
        [name, f"{lengths.mean:,.1f}", *map("{:,}".format, lengths.quantiles.values())]
        for name, _, _, lengths in _all_lengths(audit)
    ]
    return Table(["lengths", "mean", *audit.sentence_tokens.quantiles], rows)


def _measures(drawn: InstanceStats) -> Table:
    rows: list[Sequence[str]] = []
    for measure in drawn.measures:
        write = ("{:.2%}" if measure.unit == "share" else "{:.4f}").format
        expected = "" if measure.expected is None else write(measure.expected)
        rows.append([measure.name, write(measure.measured), expected, "" if measure.holds else "differs"])
    return Table([f"{drawn.max_seq_length} tokens", "measured", "expected", ""], rows)


def _describe_instances(drawn: InstanceStats) -> str:
    return (
        f"instances of {drawn.max_seq_length} tokens: {drawn.instances:,} per epoch, lengths and masks measured on "
        f"the first {drawn.sampled:,}; at most {drawn.max_predictions_per_seq} predictions; "
        f"{drawn.skipped_documents:,} documents of one sentence left out"
    )


def _describe_instance(shown: InstanceExample) -> str:
    label = shown.label or "one segment"
    documents = [f"{number:,}" for number in dict.fromkeys(shown.documents)]
    plural = "s" if len(documents) > 1 else ""
    return f"instance {shown.position}, {label}, from document{plural} {' and '.join(documents)}"


def _wrap(label: str, text: str) -> str:
    """Wrap a text after a label, further lines aligned with the first."""
    return textwrap.fill(
        text,
        _TEXT_WIDTH,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _join_tokens(segment: Sequence[Token], predicted: AnyText) -> AnyText:
    """Join tokens with a space before each word; a predicted one is written in the format `predicted`.

    >>> _join_tokens([Token("say", None), Token("##ing", None), Token("[MASK]", "##s")], "{}‹{}›")
    'saying[MASK]‹##s›'
    """
    joined = type(predicted)()
    for number, token in enumerate(segment):
        continues = (token.target or token.read).startswith(CONTINUATION)
        joined += "" if continues or not number else " "
        text = token.read.removeprefix(CONTINUATION)
        joined += text if token.target is None else predicted.format(token.read, token.target)
    return joined


def write_audit_page(audit: Audit, output: Path) -> None:
    """Write an audit as one HTML file without external resources."""
    counts = audit.counts
    expected = [m.holds for drawn in audit.drawn for m in drawn.measures if m.expected is not None]
    tiles = [
        ("Documents", f"{counts.documents:,}", f"{counts.sentences:,} sentences"),
        ("Tokens", f"{counts.tokens:,}", f"{counts.words:,} words"),
        ("Tokens per word", format_value(counts.fertility), "a word is a token without ##"),
        ("[UNK]", f"{counts.unknown_share:.3%}", "of the tokens"),
        ("As expected", f"{sum(expected)} of {len(expected)}", "measures of pairs and masks"),
    ]
    frequent = [
        (token, f"{count:,}", f"{count / counts.tokens:.2%}") for token, count in audit.frequent_tokens
    ]
    marks, examples = Markup("<mark>{}<i>{}</i></mark>"), []
    for shown in audit.shown:
        segments = zip("AB", shown.segments, strict=False)
        joined = [(name, _join_tokens(segment, marks)) for name, segment in segments]
        examples.append((_describe_instance(shown), joined))
    lengths = [
        {
            "title": name.capitalize(),
            "unit": unit,
            "counted": counted,
            "starts": distribution.bin_starts,
            "counts": distribution.bin_counts,
            "largest": distribution.quantiles["most"],
        }
        for name, unit, counted, distribution in _all_lengths(audit)
    ]
    write_page(
        output,
        "audit",
        {"lengths": lengths, "ranks": audit.counts_at_ranks},
        name=Path(audit.dataset).resolve().name,
        kind="data set",
        extent=_SPLITS[audit.split],
        tiles=tiles,
        tables=[table(audit) for table in (_counts, _lengths)],
        instances=[(_describe_instances(drawn), _measures(drawn)) for drawn in audit.drawn],
        frequent=Table(["token", "count", "share"], frequent),
        examples=examples,
        cleaning=None if audit.cleaning is None else list(_cleaning_steps(audit.cleaning)),
    )


def _cleaning_steps(report: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and counts of the steps of `report.json` that changed something, each with its examples after it."""
    if "examples" in report or "dropped" in report:
        counts = {key: value for key, value in report.items() if isinstance(value, int)}
        if any(counts.values()):
            step = name.replace("_", " ")
            yield step, ", ".join(f"{value:,} {key}" for key, value in counts.items())
            for example in report.get("examples", ()):
                yield step, f"{example['where']} · {example['before']} → {example['after']}"
        return
    for key, value in report.items():
        for item in value if isinstance(value, list) else [value]:  # appending adds a report to a list
            if isinstance(item, Mapping):
                yield from _cleaning_steps(item, key)
