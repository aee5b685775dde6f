"""`cloze import`: what other programs wrote, as a checkpoint."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Flags, Output


def run(
    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="SOURCE")],
    /,
    *,
    output: Output,
    hidden_act: Literal["gelu", "gelu_tanh"] = "gelu_tanh",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Make a checkpoint of a model that google-research/bert wrote, without TensorFlow.

    Args:
        source: directory with bert_config.json, vocab.txt and the checkpoint, or the prefix of the checkpoint, as
            in uncased_L-12_H-768_A-12/bert_model.ckpt.
        output: directory of the checkpoint.
        hidden_act: what bert_config.json means by "gelu": gelu_tanh is what Google's program computes since February
            2019, gelu (the erf form) what it computed before, and what transformers makes of the published models.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.model.google import OPTIMIZER_SUFFIXES, import_google

    found = import_google(source, output, hidden_act=hidden_act, overwrite=overwrite)
    tokenizer = found.tokenizer
    result = {
        "output": str(output),
        "model": type(found.model).__name__,
        "parameters": sum(weight.numel() for weight in found.model.parameters()),
        "pieces": tokenizer.vocab_size,
        "lowercase": tokenizer.lowercase,
        "labels": list(found.labels),
        "left_out": list(found.left_out),
    }
    case = "uncased" if tokenizer.lowercase else "cased"
    lines = [
        f"wrote {output}: {result['model']}, {result['parameters']:,} parameters, "
        f"{tokenizer.vocab_size:,} pieces, {case}"
    ]
    if found.left_out:
        others = [name for name in found.left_out if not name.endswith(OPTIMIZER_SUFFIXES)]
        named = f"; the others: {', '.join(others)}" if others else ""
        count = len(found.left_out) - len(others)
        lines.append(f"left out: {count} tensors of the optimizer{named}")
    flags.print(result, "\n".join(lines))
