"""`cloze embed`: write the vectors of texts or of their words."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.vectors import embed_file
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.inference.embedding_files import EmbeddingFileSummary


@verb(embed_file)
def show(summary: "EmbeddingFileSummary", *, output: str) -> tuple[Any, str]:
    """Return the counts of texts and vectors."""
    lines = [
        f"wrote {output}: {summary.vectors:,} vectors of size {summary.width} for {summary.texts:,} texts"
    ]
    if summary.truncated:
        lines.append(
            f"{summary.truncated:,} texts were longer than --max-seq-length and truncated: see --long-texts"
        )
    if summary.empty:
        lines.append(f"{summary.empty:,} texts are empty")
    return asdict(summary) | {"output": str(output)}, "\n".join(lines)
