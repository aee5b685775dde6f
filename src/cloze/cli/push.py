"""`cloze push DIR org/name`: upload a checkpoint to the Hugging Face Hub."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.tools import push
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.export.push import PushReport


@verb(push)
def show(report: "PushReport") -> tuple[dict[str, Any], str]:
    """Return what was uploaded."""
    return asdict(report), f"wrote {report.name}: {len(report.files)} files, {report.url}"
