"""`cloze serve`: serve models over HTTP, with an explorer page."""

from cloze.api.tools import serve
from cloze.cli.parser import verb


@verb(serve, work="requests")
def show(_: None) -> None:
    """Print nothing: the server has said where it listens."""
