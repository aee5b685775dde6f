"""Batches that run concurrently on a CPU."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest
import torch

import cloze
from cloze.models.engine import Batches, map_concurrently, num_concurrent_batches, run_batches


@pytest.fixture
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    assert torch.get_num_threads() == 4, "as it was"
    torch.set_num_threads(before)


def test_items_are_computed_concurrently(four_threads):
    together = threading.Barrier(2)

    def compute(item: int) -> tuple[int, int]:
        together.wait(timeout=60)
        return -item, torch.get_num_threads()

    assert list(map_concurrently(compute, range(6), 2)) == [(item, (-item, 2)) for item in range(6)]


def test_results_are_computed_little_ahead_of_the_reader(four_threads):
    started: list[int] = []
    results = map_concurrently(started.append, iter(range(100)), 4)
    assert next(results) == (0, None)
    assert len(started) <= 5
    results.close()


def test_an_error_of_a_thread_is_that_of_the_reader(four_threads):
    def compute(item: int) -> float:
        return 1 / (2 - item)

    results = map_concurrently(compute, range(6), 3)
    assert [next(results), next(results)] == [(0, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize(
    ("threads", "tokens", "batches"),
    [(1, 10**6, 1), (2, 511, 1), (2, 512, 2), (4, 1023, 1), (8, 10**4, 8), (12, 10**4, 6), (64, 10**4, 8)],
)
def test_the_number_of_concurrent_batches(threads, tokens, batches, monkeypatch):
    monkeypatch.setattr("cloze.models.engine.compute_threads", lambda: threads)
    assert num_concurrent_batches(tokens) == batches


@pytest.mark.parametrize(("lengths", "threads"), [([2048], 4), ([300], 4), ([1024, 1024], 1)])
def test_one_text_has_all_threads(lengths, threads, four_threads):
    class Engine:
        device_type, batch_tokens = "cpu", 1024

        def run(self, batch: Any) -> Any:
            return torch.get_num_threads()

    engine: Any = Engine()
    batches = Batches(lengths, lambda indices: cast(Any, indices))
    assert {outputs for _, _, outputs in run_batches(engine, batches)} == {threads}


def test_vectors_are_those_of_one_thread(four_threads):
    embedder = cloze.Embedder.load("cloze-mini")
    texts = [f"Rain fell on the {number} roofs. " * (1 + number % 7) for number in range(150)]
    concurrent = embedder(texts)
    torch.set_num_threads(1)
    alone = embedder(texts)
    torch.set_num_threads(4)
    np.testing.assert_allclose(concurrent, alone, atol=2e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_process_with_threads_has_its_own():
    program = """
import os
from cloze.models.engine import map_concurrently
assert len(list(map_concurrently(abs, range(9), 3))) == 9
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
else:
    os._exit(len(list(map_concurrently(abs, range(9), 3))) - 9)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=60)
