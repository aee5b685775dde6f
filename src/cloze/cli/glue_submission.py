"""`cloze glue-submission`: write the zip file that the GLUE server takes."""

from collections.abc import Mapping
from typing import Any

from cloze.api.labeled import glue_submission
from cloze.cli.parser import verb


@verb(glue_submission)
def show(sources: Mapping[str, str], *, output: str) -> tuple[dict[str, Any], str]:
    """Return the rows and the source of each file."""
    from cloze.inference.glue_submission import GLUE_FILES

    rows = {file.name: file.rows for file in GLUE_FILES}
    lines = [f"  {name:<11} {rows[name]:>7,} rows  {source}" for name, source in sources.items()]
    files = {name: {"rows": rows[name], "from": source} for name, source in sources.items()}
    return {"submission": output, "files": files}, "\n".join([f"wrote {output}", *lines])
