"""A build of real text that is killed at random, in any process, ends with the same bytes."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cloze.data.vocabulary import train_vocabulary
from helpers import read_all_files

pytestmark = pytest.mark.protected

NOVELS = Path(__file__).resolve().parents[2] / "src/cloze/demo/data"

BUILDER = """
import sys
from pathlib import Path
from cloze.data.build import BuildConfig, build_dataset
from cloze.data.input_shards import ReadingConfig
from cloze.data.vocabulary import train_vocabulary

if __name__ == "__main__":
    verb, shard_bytes, texts, vocabulary, output = sys.argv[1:]
    reading = ReadingConfig(shard_bytes=int(shard_bytes), part_characters=150_000)
    if verb == "corpus":
        build_dataset([texts], Path(vocabulary), Path(output), BuildConfig(reading=reading), workers=2)
    else:
        train_vocabulary([texts], Path(output), reading=reading, size=3000, workers=2)
"""


def children_of(process: int) -> list[int]:
    found = []
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(child) for child in thread.read_text().split()]
        except OSError:
            continue
    return found


def is_worker(process: int) -> bool:
    try:
        return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def kill_again_and_again(
    command: list[str], expected: dict[str, bytes], *, kills: int, rng: random.Random
) -> None:
    """Kill the processes of a command at random moments of its work, start it again, and look at what is there."""
    output = Path(command[-1])
    parts = output.with_name(f"{output.name}.parts")
    is_intact = False
    while kills or not is_intact:  # the last run is left alone
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: parts.exists() or output.exists() or process.poll() is not None, 60)  # noqa: B023
        time.sleep(rng.uniform(0, 1.5))
        workers = [child for child in children_of(process.pid) if is_worker(child)]
        victim = rng.choice([process.pid, *workers])
        is_hit = kills > 0 and process.poll() is None
        if is_hit:
            with suppress(ProcessLookupError):  # a worker may have ended since
                os.kill(victim, signal.SIGKILL)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 0 or is_hit, told
        if process.returncode:
            assert victim != process.pid or process.returncode == -signal.SIGKILL
            assert victim == process.pid or "a worker process died" in told
            kills -= 1
        is_intact = output.exists() and not parts.exists()  # it may be when the kill comes at the very end
        assert is_intact or process.returncode
        assert not output.exists() or read_all_files(output) == expected
        if is_intact:
            shutil.rmtree(output)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("builder") / "builder.py"
    path.write_text(BUILDER)
    return path


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("vocabularies") / "vocabulary"
    train_vocabulary([NOVELS / "Doyle_Hound_1902.txt.xz"], directory, size=3000)
    return directory


TWENTY_KILLS = [pytest.mark.exhaustive, pytest.mark.trials("kill", 20)]
BY_WORKERS, BY_THIS_PROCESS = 300_000, 32_000_000
"""Sizes of shards: small ones are read by the workers; of a single large one each worker makes parts."""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers through /proc")
@pytest.mark.parametrize(
    ("verb", "shard_bytes", "kills"),
    [
        pytest.param("corpus", BY_WORKERS, 2, marks=pytest.mark.trials("kill", 2)),
        pytest.param("corpus", BY_THIS_PROCESS, 1, marks=pytest.mark.trials("kill", 1)),
        pytest.param("vocab", BY_WORKERS, 1, marks=pytest.mark.trials("kill", 1)),
        pytest.param("corpus", BY_WORKERS, 20, marks=TWENTY_KILLS),
        pytest.param("corpus", BY_THIS_PROCESS, 20, marks=TWENTY_KILLS),
        pytest.param("vocab", BY_WORKERS, 20, marks=TWENTY_KILLS),
    ],
)
def test_build_is_bit_identical_after_sigkill(builder, vocabulary, tmp_path, verb, shard_bytes, kills):
    command = [sys.executable, str(builder), verb, str(shard_bytes), str(NOVELS), str(vocabulary)]
    subprocess.run([*command, str(tmp_path / "expected")], check=True)
    expected = read_all_files(tmp_path / "expected")
    kill_again_and_again(
        [*command, str(tmp_path / "out")], expected, kills=kills, rng=random.Random(shard_bytes + kills)
    )
    leftovers = {path.name for path in tmp_path.iterdir()} - {"expected"}
    assert all(name.startswith(".writing-out.parts-") for name in leftovers)  # killed as it began
