"""`cloze fill`: fill in the [MASK] tokens of a text."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from cloze.api.models import fill
from cloze.cli.options import CommonOptions
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.inference.pretrained_heads import FilledText


@verb(fill)
def show(filled: "list[FilledText]", *, flags: CommonOptions) -> None:
    """Print each text with the candidates for its masks."""
    for answer in filled:
        lines = [
            f"  [MASK] {number}: " + "  ".join(f"{c.token} {c.probability:.3f}" for c in mask)
            for number, mask in enumerate(answer.masks, 1)
        ]
        flags.print(asdict(answer), "\n".join([answer.text, *lines]))
