"""`cloze import`: what other programs wrote, as a checkpoint."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Flags, Output

HiddenAct = Annotated[
    Literal["gelu", "gelu_tanh"] | None, tyro.conf.arg(metavar="{gelu,gelu_tanh}", help_behavior_hint="")
]


def run(
    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")],
    /,
    *,
    output: Output,
    hidden_act: HiddenAct = None,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Make a checkpoint of a model that google-research/bert or transformers wrote, without either.

    Args:
        source: directory with Google's bert_config.json, vocab.txt and TensorFlow checkpoint, or the prefix of the
            checkpoint, as in uncased_L-12_H-768_A-12/bert_model.ckpt; or a directory of transformers, also with
            pytorch_model.bin, of which tensors are read and no code is run.
        output: directory of the checkpoint.
        hidden_act: what Google's bert_config.json means by "gelu": gelu_tanh (unless you say otherwise) is what
            Google's program computes since February 2019, gelu (the erf form) what it computed before, and what
            transformers makes of the published models.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.model.google import OPTIMIZER_SUFFIXES
    from cloze.model.importing import import_model

    found = import_model(source, output, hidden_act=hidden_act, overwrite=overwrite)
    parameters = sum(weight.numel() for weight in found.model.parameters())
    result = {
        "output": str(output),
        "model": type(found.model).__name__,
        "parameters": parameters,
        "pieces": found.tokenizer.vocab_size,
        "lowercase": found.tokenizer.lowercase,
        "labels": list(found.labels),
        "left_out": list(found.left_out),
        "new": list(found.new),
    }
    case = "uncased" if found.tokenizer.lowercase else "cased"
    pieces = f"{found.tokenizer.vocab_size:,} pieces, {case}"
    lines = [f"wrote {output}: {result['model']}, {parameters:,} parameters, {pieces}"]
    slots = [name for name in found.left_out if name.endswith(OPTIMIZER_SUFFIXES)]
    others = [name for name in found.left_out if name not in slots]
    if slots:
        lines.append(f"left out: {len(slots)} tensors of the optimizer")
    if others:
        lines.append(f"left out: {', '.join(others)}")
    if found.new:
        lines.append(f"was not there and is new, drawn at random: {', '.join(found.new)}")
    flags.print(result, "\n".join(lines))
