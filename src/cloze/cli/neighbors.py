"""`cloze neighbors`: find the nearest texts or words by their vectors."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.vectors import neighbors
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.inference.neighbors import Neighbor


@verb(neighbors)
def show(nearest: "list[Neighbor]") -> tuple[Any, str]:
    """Return a line for each neighbor."""
    lines = [f"{neighbor.cosine:6.3f}  {neighbor.text}" for neighbor in nearest]
    return [asdict(neighbor) for neighbor in nearest], "\n".join(lines)
