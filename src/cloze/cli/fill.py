"""`cloze fill`: fill in the [MASK] tokens of a text."""

from typing import Annotated, Literal

from cloze.cli import options


def run(
    texts: options.TextInputs,
    /,
    *,
    model: options.Model,
    top_k: Annotated[int, options.Flag(aliases=["-k"])] = 5,
    long_texts: Annotated[Literal["windows"] | None, options.Flag(metavar="windows")] = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    flags: options.Flags,
) -> None:
    """Print the most probable tokens for each [MASK] of a text.

    Args:
        texts: One or more texts; - reads them from stdin, one per line.
        top_k: Number of tokens per mask.
        long_texts: Read as much of a long text as fits around each mask (default: refuse it).
    """
    from cloze.inference.fill_mask import FillMask
    from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

    fill_mask = FillMask.load(model, device=device, precision=precision)
    unknown = NONE_UNKNOWN
    for text, where in options.read_texts(texts):
        masked = fill_mask.mask(text, long_texts=long_texts, where=where or "text")
        (masks,) = fill_mask.fill([masked], top_k=top_k)
        unknown += count_unknown(fill_mask.tokenizer, [text])
        result = [[{"token": c.token, "probability": c.probability} for c in mask] for mask in masks]
        lines = [
            f"  [MASK] {number}: " + "  ".join(f"{c.token} {c.probability:.3f}" for c in mask)
            for number, mask in enumerate(masks, 1)
        ]
        flags.print({"text": text, "masks": result}, "\n".join([text, *lines]))
    unknown.warn("texts")
