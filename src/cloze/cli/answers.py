"""Verbs that answer, and verbs that list tasks and formats."""

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.cli.parameters import CommonOptions
from cloze.cli.parser import Shown, verb
from cloze.tables import format_count, terminal_width

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.reading.formats import FormatDescription
    from cloze.explorer.encoder_internals import AttentionMap
    from cloze.inference.embedding_files import EmbeddingFileSummary
    from cloze.inference.neighbors import Neighbor
    from cloze.inference.pretrained_heads import FilledText, NextSentencePrediction
    from cloze.inference.search import Hit
    from cloze.tasks.registry import TaskDescription

_MAX_CLASSES = 5


@verb("predict", "predict_file")
def _show_predict(
    rows: Iterator[dict[str, Any]],
    *,
    task_or_input: str | Path,
    inputs: Sequence[str | Path],
    explain: bool,
    flags: CommonOptions,
) -> None:
    from cloze.api.predictions import find_inputs
    from cloze.data.row_files import write_json_lines

    if flags.json or explain or not find_inputs(task_or_input, inputs)[2]:
        write_json_lines(rows, sys.stdout)
        return
    for row in rows:
        flags.print(row, "\n".join([row["text"], *(f"  {line}" for line in _describe_answer(row))]))


def _describe_answer(row: dict[str, Any]) -> Iterator[str]:
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


@verb("next-labels", "next_labels")
def _show_next_labels(rows: list[dict[str, Any]], *, output: str | Path | None) -> None:
    from cloze.data.row_files import write_json_lines

    if output is None:
        write_json_lines(rows, sys.stdout)


@verb("fill", "fill")
def _show_fill(filled: "list[FilledText]", *, flags: CommonOptions) -> None:
    for answer in filled:
        lines = [
            f"  [MASK] {number}: " + "  ".join(f"{c.token} {c.probability:.3f}" for c in mask)
            for number, mask in enumerate(answer.masks, 1)
        ]
        flags.print(asdict(answer), "\n".join([answer.text, *lines]))


@verb("next", "next_sentence")
def _show_next(prediction: "NextSentencePrediction") -> Shown:
    probability = prediction.probability
    return {"is_next": probability}, f"B follows A with probability {probability:.3f}"


@verb("embed", "embed_file")
def _show_embed(summary: "EmbeddingFileSummary", *, output: str) -> Shown:
    lines = [
        f"wrote {output}: {format_count(summary.vectors, 'vector')} of size {summary.width} for "
        f"{format_count(summary.texts, 'text')}"
    ]
    if summary.truncated:
        lines.append(
            f"{summary.truncated:,} texts were longer than --max-seq-length and truncated: see --long-texts"
        )
    if summary.empty:
        lines.append(f"{format_count(summary.empty, 'empty text')} left out")
    return asdict(summary) | {"output": str(output)}, "\n".join(lines)


@verb("neighbors", "neighbors")
def _show_neighbors(nearest: "list[Neighbor]") -> Shown:
    lines = [f"{neighbor.cosine:6.3f}  {neighbor.text}" for neighbor in nearest]
    return [asdict(neighbor) for neighbor in nearest], "\n".join(lines)


@verb("search", "search")
def _show_search(hits: "list[Hit]") -> Shown:
    lines = []
    for hit in hits:
        lines += [f"{hit.score:6.3f}  {hit.file}:{hit.line}"]
        lines += [_wrap_after(" " * 8, line) for line in hit.text.splitlines()] + [""]
    return [asdict(hit) for hit in hits], "\n".join(lines[:-1])


@verb("attention", "attention")
def _show_attention(shown: "AttentionMap", *, output: str | None) -> Shown:
    num_layers, num_heads = len(shown.layers), len(shown.layers[0].query)
    shape = {"tokens": len(shown.tokens), "layers": num_layers, "heads": num_heads}
    written = "" if output is None else f"wrote {output}: "
    line = f"{written}{shape['tokens']} tokens, {num_layers} layers of {num_heads} heads"
    return {"page": output, **shape}, line


@verb("glue-submission", "glue_submission")
def _show_glue_submission(sources: Mapping[str, str], *, output: str) -> Shown:
    from cloze.inference.glue_submission import GLUE_FILES

    rows = {file.name: file.rows for file in GLUE_FILES}
    lines = [f"  {name:<11} {rows[name]:>7,} rows  {source}" for name, source in sources.items()]
    files = {name: {"rows": rows[name], "from": source} for name, source in sources.items()}
    return {"submission": output, "files": files}, "\n".join([f"wrote {output}", *lines])


@verb("tasks", "describe_tasks")
def _show_tasks(descriptions: "list[TaskDescription]", *, task: str | None) -> Shown:
    if task is not None:
        [description] = descriptions
        return asdict(description), _format_description(description)
    rows = [
        {"task": d.task, "metric": d.metrics[0], "data": d.data, "source": d.source} for d in descriptions
    ]
    widths = {key: max(len(row[key]) for row in rows) for key in ("task", "metric")}
    lines = [
        _wrap_after(
            f"{row['task']:<{widths['task']}}  {row['metric']:<{widths['metric']}}  ",
            f"{row['data']} [{row['source']}]",
        )
        for row in rows
    ]
    return rows, "\n".join(lines)


def _format_description(description: "TaskDescription") -> str:
    name = description.task
    lines = [_wrap_after(f"{name}: ", description.summary)]
    rows = {
        "data": description.data,
        "files": f"{' or '.join(description.train)}, {' or '.join(description.dev)} in a directory",
        "metrics": f"{', '.join(description.metrics)}; the first decides",
        "defaults": ", ".join(description.defaults),
        "source": description.source,
    }
    lines += [_wrap_after(f"  {label:<10}", text) for label, text in rows.items() if text]
    lines.append(_wrap_after("settings, ", "as in --set " + next(iter(description.settings)) + "=VALUE"))
    for key, setting in description.settings.items():
        value = setting.default if isinstance(setting.default, str) else json.dumps(setting.default)
        default = "" if setting.default in (None, "", ()) else f" (default: {value})"
        text = f"{setting.description}{default}".strip()
        lines += [f"  {key}", *([_wrap_after("      ", text)] if text else [])]
    return "\n".join([*lines, _wrap_after("train:  ", f"cloze finetune {name} -m cloze-mini -d DATA -o RUN")])


def _wrap_after(start: str, text: str) -> str:
    """Return text after a start, with a hanging indent if the terminal is narrower."""
    width = terminal_width()
    if width is None:
        return start + text
    indent = " " * min(len(start), width // 2)
    return textwrap.fill(text, max(width, 40), initial_indent=start, subsequent_indent=indent)


@verb("tasks formats", "describe_formats")
def _show_tasks_formats(formats: "list[FormatDescription]") -> Shown:
    width = max(len(entry.name) for entry in formats)
    lines = []
    for entry in formats:
        text = f"{', '.join(entry.files)}: {entry.about} [{', '.join(entry.tasks)}]"
        lines.append(_wrap_after(f"{entry.name:<{width}}  ", text))
    return [asdict(entry) for entry in formats], "\n".join(lines)
