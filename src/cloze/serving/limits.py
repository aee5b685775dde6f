"""What a server takes, and what it refuses before any work is done.

The numbers are those of text-embeddings-inference where it has them.
"""

from dataclasses import dataclass

MOST_INPUTS = 32
"""Texts, or pairs of texts, of a request."""
MOST_CHARACTERS = 100_000
"""Of a text."""
MOST_CANDIDATES = 50_000
"""For the blanks of a request, together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Stated by /info."""

    body_bytes: int = 2_000_000
    """Of a request."""
    json_depth: int = 64
    """Lists and objects within each other."""
    waiting_requests: int = 256
    """Requests that wait for the model; who comes later is told to come again."""
    waiting_tokens: int = 262_144
    """Their tokens, estimated; a single request may have more, where no other waits."""
    batch_tokens: int = 4096
    """Tokens, estimated, of requests that go through the model together."""
    deadline_seconds: float = 30.0
    """From when a request waits for the model until it is given up."""
    body_seconds: float = 10.0
    """In which a request has to arrive."""
    drain_seconds: float = 10.0
    """In which requests under way are answered when the server is told to stop."""
