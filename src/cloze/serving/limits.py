"""Limits on requests and on the queue, checked before any work is done.

The numbers are those of text-embeddings-inference where it has them.
"""

from dataclasses import dataclass

MAX_CHARACTERS = 100_000
"""Characters of a text."""
MAX_WORD_CHARACTERS = 10_000
"""Characters of all sentences in which the explorer shows a word."""
MAX_CANDIDATES = 50_000
"""Candidates for all [MASK]s of a request."""
FEW_INPUTS = 32
"""Inputs that may have any length; the tokens of more, estimated, are at most `waiting_tokens`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits that a server can change; /info lists them under these names."""

    batch_texts: int = 2048
    """Maximum number of texts, or pairs of texts, in a request."""
    body_bytes: int = 2_000_000
    """Maximum size of a request."""
    waiting_requests: int = 256
    """Maximum number of queued requests; further requests get 429."""
    waiting_tokens: int = 262_144
    """Maximum number of queued tokens, estimated; a single request may exceed it when the queue is empty."""
    batch_tokens: int = 4096
    """Maximum number of tokens, estimated, that pass through the model together."""
    turn_tokens: int = 4096
    """Maximum number of these for one turn of a request, while there are others."""
    deadline_seconds: float = 30.0
    """Maximum time from queueing to the result; later requests get 504."""
    body_seconds: float = 10.0
    """Maximum time for the head of a request to arrive, and for its body; later bodies get 408."""
    keep_alive_seconds: int = 75
    """Time after a response for the next request on its connection: longer than the 60 of proxies, which reuse it."""
    response_seconds: float = 60.0
    """Maximum time for a client to read a response."""
    response_bytes: int = 256_000_000
    """Maximum size of all responses that are not read yet; above it, the one that has waited longest is dropped."""
    classes: int | None = None
    """Maximum number of classes of a prediction; None returns all."""
    drain_seconds: float = 10.0
    """Time to finish open requests when the server stops."""
