"""The log as JSON lines on stderr: one for each request, and one for each message or warning."""

import json
import logging
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

REQUESTS = logging.getLogger("cloze.requests")
"""Logs a line for each request, if it is enabled for the level INFO."""


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        row: dict[str, Any] = {"time": time, "level": record.levelname, "message": record.getMessage()}
        for name, value in getattr(record, "fields", {}).items():
            row[name] = round(value, 6) if isinstance(value, float) else value
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row)


def log_as_json() -> Callable[[str], None]:
    """Write all that this process logs as JSON; return a function that logs a message."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter())
    logging.basicConfig(handlers=[handler], force=True)
    REQUESTS.setLevel(logging.INFO)
    warnings.formatwarning = lambda message, *_, **__: str(message)
    logging.captureWarnings(capture=True)
    return REQUESTS.info
