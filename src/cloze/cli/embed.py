"""`cloze embed`: write the vectors of texts or of their words."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.vectors import embed_file
from cloze.cli.parser import verb
from cloze.tables import format_count

if TYPE_CHECKING:
    from cloze.inference.embedding_files import EmbeddingFileSummary


@verb(embed_file)
def show(summary: "EmbeddingFileSummary", *, output: str) -> tuple[Any, str]:
    """Return the counts of texts and vectors."""
    lines = [
        f"wrote {output}: {format_count(summary.vectors, 'vector')} of size {summary.width} for "
        f"{format_count(summary.texts, 'text')}"
    ]
    if summary.truncated:
        lines.append(
            f"{summary.truncated:,} texts were longer than --max-seq-length and truncated: see --long-texts"
        )
    if summary.empty:
        lines.append(f"{format_count(summary.empty, 'empty text')} left out")
    return asdict(summary) | {"output": str(output)}, "\n".join(lines)
