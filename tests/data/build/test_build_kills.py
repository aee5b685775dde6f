"""A build of real text that is killed at random moments, in any process, ends with the same bytes."""

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

from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.build.parts import BuildConfig
from cloze.data.build.vocabulary import VocabularyConfig, train_vocabulary
from helpers import read_tree, write_novel

pytestmark = [
    pytest.mark.protected,
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers through /proc"),
]

NOVELS = Path(__file__).resolve().parents[3] / "src/cloze/demo/data"

SIZE = 3000
"""Of the vocabulary."""

BUILDER = """
import sys
from pathlib import Path
from cloze.data.build.corpus import build_dataset
from cloze.data.build.parts import BuildConfig
from cloze.data.build.input_shards import BuildRun, ReadingConfig
from cloze.data.build.vocabulary import VocabularyConfig, train_vocabulary

if __name__ == "__main__":
    verb, shard_bytes, part_characters, size, texts, vocabulary, output = sys.argv[1:]
    reading = ReadingConfig(shard_bytes=int(shard_bytes), part_characters=int(part_characters))
    if verb == "corpus":
        build_dataset([texts], Path(vocabulary), Path(output), BuildConfig(reading=reading), BuildRun(workers=2))
    else:
        train_vocabulary([texts], Path(output), VocabularyConfig(reading=reading, size=int(size)), BuildRun(workers=2))
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
        if time.monotonic() > end:
            raise TimeoutError(f"timed out after {seconds} s")
        time.sleep(0.005)


def kill_until_done(
    command: list[str], expected: dict[str, bytes], *, kills: int, rng: random.Random, seconds: float
) -> None:
    """Kill a process of a command at a random moment, start it again, and compare the output; repeat."""
    output = Path(command[-1])
    parts = output.with_name(f"{output.name}.parts")
    is_intact = False
    while kills or not is_intact:  # the last run is left alone
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: parts.exists() or output.exists() or process.poll() is not None, 60)  # noqa: B023
        time.sleep(rng.uniform(0, seconds))
        workers = [child for child in children_of(process.pid) if is_worker(child)]
        victim = rng.choice([process.pid, *workers])
        is_hit = kills > 0 and process.poll() is None
        if is_hit:
            with suppress(ProcessLookupError):  # a worker may have ended since
                os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0 or is_hit, errors
        if process.returncode:
            assert victim != process.pid or process.returncode == -signal.SIGKILL
            assert victim == process.pid or "a worker process died" in errors
            kills -= 1
        is_intact = output.exists() and not parts.exists()  # true after a kill at the very end, too
        assert is_intact or process.returncode
        assert not output.exists() or read_tree(output) == expected
        if is_intact:
            shutil.rmtree(output)


def assert_build_survives_kills(
    texts: Path, directory: Path, verb: str, reading: ReadingConfig, *, kills: int, seconds: float
) -> None:
    """Build in this process, then in processes that are killed."""
    (directory / "builder.py").write_text(BUILDER)
    vocabulary = directory / "vocabulary"
    train_vocabulary([texts], vocabulary, VocabularyConfig(reading=reading, size=SIZE))
    expected = read_tree(vocabulary)
    if verb == "corpus":
        build_dataset([texts], vocabulary, directory / "expected", BuildConfig(reading=reading))
        expected = read_tree(directory / "expected")
    sizes = [str(reading.shard_bytes), str(reading.part_characters), str(SIZE)]
    command = [sys.executable, str(directory / "builder.py"), verb, *sizes, str(texts), str(vocabulary)]
    rng = random.Random(reading.shard_bytes + kills)
    kill_until_done([*command, str(directory / "out")], expected, kills=kills, rng=rng, seconds=seconds)
    leftovers = {path.name for path in directory.iterdir()} - {"builder.py", "vocabulary", "expected"}
    assert all(name.startswith(".writing-out.parts-") for name in leftovers)  # of kills before the first part


READERS = [
    pytest.param("corpus", False, id="shards are read by workers"),
    pytest.param("corpus", True, id="a shard is read by this process, and workers make its parts"),
    pytest.param("vocab", False, id="vocabulary"),
]


@pytest.mark.trials("kill", 2)
@pytest.mark.parametrize(("verb", "is_one_shard"), READERS)
def test_build_of_a_novel_is_bit_identical_after_sigkill(tmp_path, verb, is_one_shard):
    (tmp_path / "build").mkdir()
    texts = write_novel(tmp_path / "novel.txt", 2000)
    reading = ReadingConfig(shard_bytes=32_000_000 if is_one_shard else 40_000, part_characters=20_000)
    assert_build_survives_kills(texts, tmp_path / "build", verb, reading, kills=2, seconds=0.5)


@pytest.mark.exhaustive
@pytest.mark.trials("kill", 20)
@pytest.mark.parametrize(("verb", "is_one_shard"), READERS)
def test_build_of_twelve_novels_is_bit_identical_after_twenty_sigkills(tmp_path, verb, is_one_shard):
    reading = ReadingConfig(shard_bytes=32_000_000 if is_one_shard else 300_000, part_characters=150_000)
    assert_build_survives_kills(NOVELS, tmp_path, verb, reading, kills=20, seconds=1.5)
