"""`cloze export`: export a model to ONNX, or to int8 for cloze."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from cloze.choices import GraphPrecision
from cloze.cli import options
from cloze.errors import InputError


def run(
    model: Annotated[str, options.Flag(metavar="MODEL")],
    /,
    *,
    output: options.Output,
    to: Literal["onnx", "int8"] = "onnx",
    int8: options.Switch = False,
    fp16: options.Switch = False,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Export a model with its tokenizer as an ONNX graph, or as a directory of int8 weights that cloze alone reads.

    The graph takes any batch size and length and is checked against PyTorch.

    Pooling and normalization of sentence encoders are part of the graph.

    Args:
        model: cloze-mini, a checkpoint, a run, a directory of transformers or sentence-transformers, or hf://org/name.
        output: Directory to write.
        to: Format: onnx, or int8, which has a quarter of the size and runs with -m DIR in every verb but training.
        int8: In the graph, store matrices and embeddings as 8-bit integers, and report the difference.
        fp16: In the graph, store weights and compute in 16 bits, and report the difference.
    """
    from cloze.api.models import export_model

    if to == "int8":
        options.refuse_together("--to int8", {"--int8": int8, "--fp16": fp16})
        _export_int8(model, output, overwrite=overwrite, flags=flags)
        return
    if int8 and fp16:
        raise InputError("cannot be combined with --int8", where="--fp16", remedy="Export twice")
    precision: GraphPrecision = "int8" if int8 else "float16" if fp16 else "float32"
    exported = export_model(model, output, precision=precision, overwrite=overwrite)
    lines = [
        f"wrote {output}: {exported.model} in {precision}, {exported.bytes / 1e6:,.1f} MB, "
        f"outputs {', '.join(exported.outputs)}"
    ]
    for check in exported.checks:
        shape = f"{check.batch} x {check.length} tokens"
        lines.append(
            f"  {shape:<16} largest difference from PyTorch {check.largest_difference:.1e}, "
            f"largest value {check.largest_value:.3g}"
        )
    flags.print({"output": str(output), **asdict(exported)}, "\n".join(lines))


def _export_int8(model: str, output: Path, *, overwrite: bool, flags: options.CommonOptions) -> None:
    from cloze.api.models import export_model

    exported = export_model(model, output, to="int8", overwrite=overwrite)
    text = (
        f"wrote {output}: {exported.model} in int8, {exported.bytes / 1e6:,.1f} MB of weights, "
        f"{exported.share:.0%} of float32; only cloze reads it"
    )
    flags.print({"output": str(output), **asdict(exported)}, text)
