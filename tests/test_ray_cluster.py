"""A Ray cluster gives the bytes of one process, even if a machine is lost."""

import os
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from cloze import artifacts
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import BuildRun, ReadingConfig
from cloze.data.build.parts import BuildConfig
from cloze.data.build.vocabulary import VocabularyConfig, train_vocabulary
from cloze.errors import InputError, RunError
from cloze.parallel_map import RayCluster, map_ordered, map_unordered
from test_parallel_map import _fail

pytest.importorskip("ray", reason="needs the package ray")

# Ray leaves sockets and files to the garbage collector and uses deprecated names
pytestmark = [pytest.mark.protected, pytest.mark.filterwarnings("ignore::Warning"), pytest.mark.exhaustive]


WORDS = "the river ran down from hills to sea while people of town slept"


def _square(number: int) -> int:
    return number * number


def _die(number: int) -> int:
    if number == 3:
        os._exit(9)
    return number


def split_slowly(paragraph: str) -> list[str]:
    time.sleep(0.01)
    return [f"{part}." for part in paragraph.split(".") if part]


def _here(_: int) -> str:
    return os.getcwd()


def test_cluster_maps_like_processes(two_machines, tmp_path, monkeypatch):
    cluster = RayCluster()
    assert cluster.num_workers == 2
    assert sorted(map_unordered(_square, range(9), workers=cluster)) == [n * n for n in range(9)]
    assert list(map_ordered(_square, iter(range(9)), workers=cluster)) == [n * n for n in range(9)]
    drawn = []

    def items() -> Iterator[int]:
        for number in range(30):
            drawn.append(number)
            yield number

    next(map_unordered(_square, items(), workers=cluster))
    assert len(drawn) <= 4
    with pytest.raises(InputError, match="here: three"):
        list(map_unordered(_fail, range(9), workers=cluster))
    with pytest.raises(RunError, match="an item was lost 6 times"):
        list(map_unordered(_die, [3], workers=cluster))
    with pytest.raises(InputError, match=r"0\.5 GPUs"):
        _ = RayCluster(num_gpus=0.5).num_workers
    monkeypatch.chdir(tmp_path)
    assert set(map_unordered(_here, range(9), workers=cluster)) == {str(tmp_path)}


def test_resources_per_item(two_machines):
    assert (
        RayCluster().with_resources("auto") == RayCluster().with_resources("cpu") == (RayCluster(), "cpu", 1)
    )
    assert RayCluster().with_resources("cuda:1") == (RayCluster(num_gpus=1), "cuda", 1)
    assert RayCluster(num_gpus=0.5).with_resources("cuda") == (RayCluster(num_gpus=0.5), "cuda", 1)
    two_machines.add_node(num_cpus=2, num_gpus=1)
    two_machines.add_node(num_cpus=3)
    two_machines.wait_for_nodes()
    assert RayCluster().with_resources("auto") == (RayCluster(num_gpus=1), "cuda", 1)
    assert RayCluster(num_gpus=1).num_workers == 1
    pairs, device, threads = RayCluster().with_resources("cpu", items=2)
    assert (pairs, device, threads) == (RayCluster(num_cpus=2), "cpu", 2)
    assert list(map_ordered(_square, range(3), workers=pairs)) == [0, 1, 4]


def _kill_a_machine(cluster: Any, parts: Path, done_before: list[int]) -> None:
    """Kill a machine after some parts are finished."""
    deadline = time.monotonic() + 120
    while (done := len(list(parts.glob("*-[0-9]*.json")))) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
    done_before.append(done)


def test_bytes_are_those_of_one_process_after_a_machine_is_lost(two_machines, tmp_path):
    words = WORDS.split()
    for number in range(12):
        lines = [f"{' '.join(words[(number + i * j) % 13] for j in range(9))}." for i in range(60)]
        (tmp_path / f"text-{number:02}.txt").write_text("\n".join(f"{a} {b}" for a, b in pairwise(lines)))
    inputs = [tmp_path / "text-*.txt"]
    reading = ReadingConfig(text_format="files", shard_bytes=1000)
    for name, workers in (("local", 1), ("cluster", RayCluster())):
        train_vocabulary(
            inputs,
            tmp_path / f"vocab-{name}",
            VocabularyConfig(reading=reading, size=45),
            BuildRun(workers=workers),
        )
    config = BuildConfig(reading=reading, splitter=f"{Path(__file__).stem}:{split_slowly.__name__}")
    build_dataset(inputs, tmp_path / "vocab-local", tmp_path / "data-local", config)
    done_before: list[int] = []
    loss = Thread(target=_kill_a_machine, args=(two_machines, tmp_path / "data-cluster.parts", done_before))
    loss.start()
    build_dataset(
        inputs, tmp_path / "vocab-local", tmp_path / "data-cluster", config, BuildRun(workers=RayCluster())
    )
    loss.join()
    assert 3 <= done_before[0] < len(list((tmp_path / "data-local").glob("*.arrow"))) - 2
    for kind in ("vocab", "data"):
        local, cluster = (
            artifacts.verify(tmp_path / f"{kind}-{name}").files for name in ("local", "cluster")
        )
        assert local == cluster
