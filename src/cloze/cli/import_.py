"""`cloze import`: convert a Google or Hugging Face model to a checkpoint."""

from typing import TYPE_CHECKING, Any

from cloze.api.models import import_model
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.models.external_weights import ExternalModel


@verb(import_model)
def show(imported: "ExternalModel", output: str) -> tuple[dict[str, Any], str]:
    """Return what was converted, left out and missing."""
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
