"""Verbs of models and runs: import, export, push, info, report and serve."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.choices import GraphPrecision
from cloze.cli.parser import Shown, verb

if TYPE_CHECKING:  # not needed for --help
    from cloze.export.onnx import ExportReport
    from cloze.export.push import PushReport
    from cloze.models.external_weights import ExternalModel
    from cloze.reports.describe import Description


@verb("import", "import_model")
def _show_import(imported: "ExternalModel", output: str) -> Shown:
    from cloze.models.external_weights import OPTIMIZER_SUFFIXES

    tokenizer = imported.tokenizer
    result = {
        "output": str(output),
        "model": type(imported.model).__name__,
        "parameters": sum(weight.numel() for weight in imported.model.parameters()),
        "vocab_size": tokenizer.vocab_size,
        "lowercase": tokenizer.lowercase,
        "labels": list(imported.labels),
        "left_out": list(imported.unexpected_keys),
        "new": list(imported.missing_keys),
    }
    optimizer = [name for name in imported.unexpected_keys if name.endswith(OPTIMIZER_SUFFIXES)]
    others = [name for name in imported.unexpected_keys if name not in optimizer]
    vocabulary = f"{tokenizer.vocab_size:,} {'uncased' if tokenizer.lowercase else 'cased'} tokens"
    lines = [f"wrote {output}: {result['model']}, {result['parameters']:,} parameters, {vocabulary}"]
    if optimizer:
        lines.append(f"left out: {len(optimizer)} tensors of the optimizer")
    if others:
        lines.append(f"left out: {', '.join(others)}")
    if imported.missing_keys:
        lines.append(f"missing in the source, initialized at random: {', '.join(imported.missing_keys)}")
    return result, "\n".join(lines)


@verb("export", "export_model")
def _show_export(exported: "ExportReport", output: str, precision: GraphPrecision) -> Shown:
    size, outputs = f"{exported.bytes / 1e6:,.1f} MB", ", ".join(exported.outputs)
    lines = [f"wrote {output}: {exported.model} in {precision}, {size}, outputs {outputs}"]
    for check in exported.checks:
        shape = f"{check.batch} x {check.length} tokens"
        lines.append(
            f"  {shape:<16} largest difference from PyTorch {check.largest_difference:.1e}, "
            f"largest value {check.largest_value:.3g}, lowest cosine {check.lowest_cosine:.4f}"
        )
    return {"output": str(output), **asdict(exported)}, "\n".join(lines)


@verb("push", "push")
def _show_push(report: "PushReport") -> Shown:
    return asdict(report), f"wrote {report.name}: {len(report.files)} files, {report.url}"


@verb("info", "info")
def _show_info(description: "Description") -> Shown:
    verified = [f"{path}: {count} files, as written" for path, count in description.checked.items()]
    lines = [
        f"{description.path}: {'' if description.kind.endswith('s') else 'a '}{description.kind}",
        *_format_facts(description.facts, "  "),
        *(verified or ["no manifest to verify the files against"]),
    ]
    return description.as_dict(), "\n".join(lines)


def _format_facts(facts: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}"
            yield from _format_facts(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from _format_facts({f"{name} {n}": item for n, item in enumerate(value, 1)}, indent)
        else:
            yield f"{indent}{name:<{30 - len(indent)}} {_format_value(value)}"


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_format_value, value)) or "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@verb("report", "report")
def _show_report(path: Path) -> Shown:
    return {"report": str(path)}, f"wrote {path}"


verb("serve", "serve", work="requests")(lambda _: None)  # the server prints where it listens
