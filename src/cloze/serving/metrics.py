"""Counters and histograms for Prometheus."""

from collections.abc import Collection
from contextlib import AbstractContextManager

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from cloze.serving.queue import Queue

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Requests by route and status, their latency, and the length of the queue."""

    def __init__(self, queue: Queue) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "cloze_requests", "Requests answered", ("route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "cloze_request_seconds",
            "From the head of a request to its answer",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._in_progress = Gauge(
            "cloze_requests_in_progress", "Requests in progress", registry=self._registry
        )
        for name, text, value in (
            ("cloze_waiting_requests", "Requests that wait for the model", lambda: queue.waiting_requests),
            ("cloze_waiting_tokens", "Their tokens, estimated", lambda: queue.waiting_tokens),
            ("cloze_batches", "Times that the model was run", lambda: queue.batches),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)
        self._routes: frozenset[str] = frozenset()

    def name_routes(self, routes: Collection[str]) -> None:
        """Set the paths with a label of their own; all others share one, so that memory stays bounded."""
        self._routes = frozenset(routes)

    def track_in_progress(self) -> AbstractContextManager[object]:
        """Return a context that counts a request while it is in progress."""
        return self._in_progress.track_inprogress()

    def count(self, path: str, status: int, seconds: float) -> None:
        """Record an answered request."""
        route = path if path in self._routes else "other"
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)
