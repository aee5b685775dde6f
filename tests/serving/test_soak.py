"""The server's memory does not grow with texts of ever other lengths."""

import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from server_process import ServerProcess

from helpers import novel_paragraphs

WARM_UP, REQUESTS = 1000, int(os.environ.get("CLOZE_SOAK_REQUESTS", "2000"))
MAX_GROWTH = 24 << 20
"""Without limits on kernels and freed blocks, as many requests add hundreds of megabytes."""


def _requests(count: int, seed: int) -> list[list[str]]:
    """Return lists of texts whose lengths are those of real paragraphs, cut at random."""
    paragraphs, choose = novel_paragraphs(800), random.Random(seed)
    requests = []
    for _ in range(count):
        texts = choose.sample(paragraphs, choose.randint(1, 4))
        requests.append([text[: choose.randint(1, len(text))] for text in texts])
    return requests


@pytest.mark.long
@pytest.mark.trials("request", WARM_UP + REQUESTS)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(1800)
def test_memory_does_not_grow_with_varied_lengths(record_property: Callable[[str, object], None]) -> None:
    served = ServerProcess(one_core=True)

    def send(count: int, seed: int) -> None:
        with httpx.Client(base_url=served.url, timeout=300) as client, ThreadPoolExecutor(2) as pool:
            answers = pool.map(
                lambda texts: client.post("/embed", json={"inputs": texts}).status_code,
                _requests(count, seed),
            )
            assert set(answers) == {200}

    try:
        send(WARM_UP, 1)
        before = served.state()[0]
        send(REQUESTS, 2)
        growth = served.state()[0] - before
    finally:
        served.end()
    record_property("grown_bytes", growth)
    assert growth <= MAX_GROWTH
