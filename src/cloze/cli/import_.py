"""`cloze import`: convert a Google or Hugging Face model to a checkpoint."""

from typing import Annotated, Literal

from cloze.cli import options

HiddenAct = Annotated[Literal["gelu", "gelu_tanh"] | None, options.Flag(metavar="{gelu,gelu_tanh}")]


def run(
    source: Annotated[str, options.Flag(metavar="SOURCE")],
    /,
    *,
    output: options.Output,
    hidden_act: HiddenAct = None,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Convert a model of google-research/bert or transformers to a checkpoint.

    Needs neither TensorFlow nor transformers, and runs no pickled code.

    Args:
        source: Directory with bert_config.json, vocab.txt and a TensorFlow checkpoint, prefix of the checkpoint, as in
            uncased_L-12_H-768_A-12/bert_model.ckpt; or directory of transformers or hf://org/name, also with
            pytorch_model.bin.
        output: Directory of the checkpoint.
        hidden_act: Meaning of "gelu" in Google's bert_config.json: gelu_tanh (default), as in google-research/bert
            since February 2019, or gelu (exact), as before and in transformers.
    """
    from cloze.api.models import import_model
    from cloze.models.external_weights import OPTIMIZER_SUFFIXES

    imported = import_model(source, output, hidden_act=hidden_act, overwrite=overwrite)
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
    flags.print(result, "\n".join(lines))
