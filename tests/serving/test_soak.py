"""The server's memory does not grow with texts of ever other lengths."""

import os
import random
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import httpx
import pytest
import torch
from server_process import ServerProcess

from helpers import novel_paragraphs

WARM_UP, REQUESTS = 1000, int(os.environ.get("CLOZE_SOAK_REQUESTS", "2000"))
MAX_USED, MAX_GROWTH = 256 << 20, 32 << 20
"""Bytes more than before the first request, and than after the warm-up.

Without limits on kernels and freed blocks, as many requests take hundreds of megabytes. glibc returns freed blocks in
pieces of 16 MB, so a reading is up to 18 MB off. Growth is therefore the median slope between all pairs of readings
since the end of the warm-up (Theil-Sen), times the requests between the first and the last.
"""
REQUESTS_PER_READING = 250


def _requests(count: int, seed: int) -> list[list[str]]:
    """Return lists of texts whose lengths are those of real paragraphs, cut at random."""
    paragraphs, choose = novel_paragraphs(800), random.Random(seed)
    requests = []
    for _ in range(count):
        texts = choose.sample(paragraphs, choose.randint(1, 4))
        requests.append([text[: choose.randint(1, len(text))] for text in texts])
    return requests


@pytest.mark.exhaustive
@pytest.mark.trials("request", WARM_UP + REQUESTS)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_memory_does_not_grow_with_varied_lengths(precision, record_property):
    if precision != "float32" and not torch.backends.mkldnn.is_available():
        pytest.skip("torch has no oneDNN here")
    if precision == "bfloat16" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no bfloat16")
    served = ServerProcess("--precision", precision, one_core=True)

    def memory_after(requests: list[list[str]]) -> int:
        with httpx.Client(base_url=served.url, timeout=300) as client, ThreadPoolExecutor(2) as pool:
            answers = pool.map(
                lambda texts: client.post("/embed", json={"inputs": texts}).status_code, requests
            )
            assert set(answers) == {200}
        return served.state()[0]

    try:
        at_start = served.state()[0]
        requests = _requests(WARM_UP + REQUESTS, 1)
        readings = [
            memory_after(requests[start : start + REQUESTS_PER_READING])
            for start in range(0, len(requests), REQUESTS_PER_READING)
        ]
    finally:
        served.end()
    used = statistics.median(readings[-3:]) - at_start
    warm = list(enumerate(readings))[WARM_UP // REQUESTS_PER_READING - 1 :]
    slopes = [(later - earlier) / (j - i) for (i, earlier), (j, later) in combinations(warm, 2)]
    growth = statistics.median(slopes) * (len(warm) - 1)
    record_property("used_bytes", used)
    record_property("grown_bytes", growth)
    assert used <= MAX_USED
    assert growth <= MAX_GROWTH
