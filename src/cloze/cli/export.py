"""`cloze export`: export a model to ONNX, or to int8 for cloze."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.models import export_model
from cloze.choices import GraphPrecision
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.export.int8 import Int8Report
    from cloze.export.onnx import ExportReport


@verb(export_model)
def show(
    exported: "ExportReport | Int8Report", output: str, to: str, precision: GraphPrecision
) -> tuple[dict[str, Any], str]:
    """Return what was written, and the differences from PyTorch."""
    table = {"output": str(output), **asdict(exported)}
    size = f"{exported.bytes / 1e6:,.1f} MB"
    if to == "int8":
        share = f"{exported.share:.0%} of float32; only cloze reads it"  # type: ignore[union-attr]
        return table, f"wrote {output}: {exported.model} in int8, {size} of weights, {share}"
    outputs = ", ".join(exported.outputs)  # type: ignore[union-attr]
    lines = [f"wrote {output}: {exported.model} in {precision}, {size}, outputs {outputs}"]
    for check in exported.checks:  # type: ignore[union-attr]
        shape = f"{check.batch} x {check.length} tokens"
        lines.append(
            f"  {shape:<16} largest difference from PyTorch {check.largest_difference:.1e}, "
            f"largest value {check.largest_value:.3g}, lowest cosine {check.lowest_cosine:.4f}"
        )
    return table, "\n".join(lines)
