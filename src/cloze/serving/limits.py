"""Limits on requests and on the queue, checked before any work is done.

The numbers are those of text-embeddings-inference where it has them.
"""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from cloze.config import Positive, Range, Settings

MAX_CHARACTERS = 100_000
"""Characters of a text."""
MAX_TURN_CHARACTERS = 10_000
"""Characters of all texts that the explorer reads in one turn."""
MAX_CANDIDATES = 50_000
"""Candidates for all [MASK]s of a request."""
FEW_INPUTS = 32
"""Inputs that may have any length; the tokens of more, estimated, are at most `waiting_tokens`."""


Seconds: TypeAlias = Annotated[float, Range("(0, inf)")]


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits(Settings):
    """Limits that a server can change: flags of `cloze serve`; /info lists them under these names."""

    max_batch_texts: Positive[int] = 2048
    """Maximum number of texts, or pairs of texts, in a request."""
    top_k: Positive[int] | None = None
    """Maximum number of classes that /predict returns, the most probable first (default: all)."""
    body_bytes: Positive[int] = 2_000_000
    """Maximum size of a request."""
    body_seconds: Seconds = 10.0
    """Maximum time for the head of a request to arrive, and for its body; later bodies get 408."""
    deadline_seconds: Seconds = 30.0
    """Maximum time from queueing to the result; later requests get 504."""
    waiting_requests: Positive[int] = 256
    """Maximum number of queued requests; further requests get 429."""
    waiting_tokens: Positive[int] = 262_144
    """Maximum number of queued tokens, estimated; a single request may exceed it when the queue is empty."""
    batch_tokens: Positive[int] = 4096
    """Maximum number of tokens, estimated, that pass through the model together."""
    keep_alive: Positive[int] = 75
    """Seconds for which a connection stays open between requests; set it above the timeout of a proxy in front."""
    shutdown_delay: Annotated[float, Range("[0, inf)")] = 0.0
    """Seconds after SIGTERM in which requests are still answered, while /health is 503."""
    drain_seconds: Positive[int] = 10
    """Time to finish open requests when the server stops."""
