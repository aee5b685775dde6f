"""`cloze predict`: print predictions of a fine-tuned model as JSON lines."""

import sys
from collections.abc import Iterator
from typing import Any

from cloze.api.predictions import predict_file
from cloze.cli.parser import verb


@verb(predict_file)
def show(rows: Iterator[dict[str, Any]]) -> None:
    """Print the rows as they are computed."""
    from cloze.data.row_files import write_json_lines

    write_json_lines(rows, sys.stdout)
