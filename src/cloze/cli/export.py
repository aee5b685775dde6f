"""`cloze export`: a model in the form that another runtime takes."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Flags, Output
from cloze.errors import InputError


def run(
    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")],
    /,
    *,
    output: Output,
    to: Literal["onnx"] = "onnx",
    int8: bool = False,
    fp16: bool = False,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Write a model as an ONNX graph with its tokenizer, for any batch and length; checked against torch first.

    Args:
        model: cloze-mini, a checkpoint, or a run, whose best is taken or else its newest; cloze's, transformers' or
            sentence-transformers', whose pooling and normalisation are in the graph.
        output: directory of the graph.
        to: the form.
        int8: matrices and embeddings as 8-bit integers, a quarter of the size; what that costs is measured and said.
        fp16: weights and arithmetic in 16 bits, half of the size; what that costs is measured and said.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from dataclasses import asdict

    from cloze.extras import require

    if int8 and fp16:
        raise InputError("--int8 and --fp16 at once", remedy="Export twice, to two directories")
    require(["onnx", "onnxruntime"], extra="onnx", where="ONNX")
    from cloze.export.graph import Precision
    from cloze.export.onnx import export_onnx

    precision: Precision = "int8" if int8 else "float16" if fp16 else "float32"
    exported = export_onnx(model, output, precision=precision, overwrite=overwrite)
    outputs = ", ".join(exported.outputs)
    lines = [
        f"wrote {output}: {exported.model} in {precision}, {exported.bytes / 1e6:,.1f} MB, gives {outputs}"
    ]
    for check in exported.checks:
        shape = f"{check.batch} x {check.length} tokens"
        lines.append(
            f"  {shape:<16} largest difference to torch {check.largest_difference:.1e}, "
            f"largest value {check.largest_value:.3g}"
        )
    flags.print({"output": str(output), **asdict(exported)}, "\n".join(lines))
