"""Parts of killed, shared and damaged builds are made once and are the same."""

import gzip
import io
import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloze.data import part_files
from cloze.data.build_plan import BuildPlan
from cloze.data.build_state import (
    BuildState,
    begin,
    check_output_is_not_read,
    is_finalized,
    open_state,
)
from cloze.data.documents import Document
from cloze.data.input_shards import InputShard, ReadingConfig, plan_input_shards
from cloze.data.job_arrays import ArrayTask
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from helpers import flip_bit

SETTINGS = {"language": "en", "part_characters": 20}  # four documents
READING = ReadingConfig(text_format="sentences", shard_bytes=1)  # a file, since compressed files are not cut


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Five files of 1, 5, 9, 13 and 17 documents, each document of five characters."""
    files = []
    for number in range(5):
        files.append(tmp_path / f"text-{number}")
        content = "".join(f"{number}: {n:02}\n\n" for n in range(4 * number + 1))
        files[-1].write_bytes(gzip.compress(content.encode()))
    return files


def write(documents: list[Document], path: Path, *, made: list[str], stop_after: int = 10**9) -> dict:
    """Make a part of documents: their text."""
    if len(made) == stop_after:
        raise KeyboardInterrupt
    text = " ".join(line for document in documents for line in document.lines)
    path.write_text(text)
    made.append(text)
    return {"documents": len(documents)}


def begin_build(
    tmp_path: Path, texts: Sequence[Path | str], reading: ReadingConfig = READING, **changes: object
) -> tuple[BuildState, list[InputShard]]:
    input_shards = plan_input_shards([str(text) for text in texts], reading)
    arguments = {"settings": SETTINGS, "options": {}} | changes
    return begin(tmp_path / "out", input_shards, **arguments), input_shards


def make_parts(
    state: BuildState,
    input_shards: Sequence[InputShard],
    task: ArrayTask | None = None,
    *,
    progress: Progress = SILENT,
    workers: int = 1,
    **settings: object,
) -> list[str]:
    """Work as long as there is work, and return the texts that were made parts of."""
    made: list[str] = []
    make = partial(write, made=made, **settings)
    state.make_parts(input_shards, make, label="", count=dict, workers=workers, progress=progress, task=task)
    return made


def contents(state: BuildState) -> list[str]:
    return [part.path.read_text() for part in state.parts()]


EXPECTED = [
    " ".join(f"{number}: {n:02}" for n in range(start, min(start + 4, 4 * number + 1)))
    for number in range(5)
    for start in range(0, 4 * number + 1, 4)
]


def test_parts_are_in_the_order_of_the_text(tmp_path, texts):
    state, input_shards = begin_build(tmp_path, texts)
    assert make_parts(state, input_shards) == EXPECTED
    assert contents(state) == EXPECTED
    assert [part.record["documents"] for part in state.parts()] == [
        len(text.split()) // 2 for text in EXPECTED
    ]
    assert make_parts(*begin_build(tmp_path, texts)) == []


@pytest.mark.parametrize("stop_after", range(len(EXPECTED)))
@pytest.mark.protected
def test_finished_parts_are_not_made_again(tmp_path, texts, stop_after):
    state, input_shards = begin_build(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt):
        make_parts(state, input_shards, stop_after=stop_after)
    again, input_shards = begin_build(tmp_path, texts)
    assert make_parts(again, input_shards) == EXPECTED[stop_after:]
    assert contents(again) == EXPECTED


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 11, 40])
def test_array_tasks_make_each_part_once(tmp_path, texts, count):
    made = []
    for number in range(count, 0, -1):  # in any order
        state, input_shards = begin_build(tmp_path, texts, is_task=True)
        made += make_parts(state, input_shards, ArrayTask(number, count))
    assert sorted(made) == EXPECTED
    assert contents(state) == EXPECTED


def test_a_finished_shard_is_not_read(tmp_path, texts, monkeypatch):
    make_parts(*begin_build(tmp_path, texts))
    monkeypatch.setattr(part_files, "read_documents", None)
    assert make_parts(*begin_build(tmp_path, texts)) == []


def test_missing_shards_and_tasks_are_named(tmp_path, texts):
    for number in (1, 4):
        state, input_shards = begin_build(tmp_path, texts, is_task=True)
        make_parts(state, input_shards, ArrayTask(number, 5))
    with pytest.raises(
        InputError, match=r"3 of 5 input shards .* first is of .*text-1; tasks 2, 3, 5 of 5 have not"
    ):
        state.parts()
    with pytest.raises(InputError, match="no parts"):
        open_state(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "damage",
    [
        flip_bit,
        lambda part: part.write_bytes(part.read_bytes()[:-1]),
        lambda part: part.write_bytes(b""),
        Path.unlink,
        lambda part: part.with_suffix(".json").write_text(""),
        lambda part: part.with_suffix(".json").write_text("{}"),
    ],
)
@pytest.mark.protected
def test_a_damaged_part_is_made_again(tmp_path, texts, damage, capsys):
    state, input_shards = begin_build(tmp_path, texts)
    make_parts(state, input_shards)
    damage(state.parts()[3].path)
    assert make_parts(state, input_shards, progress=Progress()) == EXPECTED[3:4]
    assert contents(state) == EXPECTED
    assert "1 damaged parts are made again, the first is " in capsys.readouterr().err
    assert state.discard_damaged() == []


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff"])
@pytest.mark.protected
def test_a_shard_with_a_damaged_part_count_is_read_again(tmp_path, texts, content):
    state, input_shards = begin_build(tmp_path, texts)
    make_parts(state, input_shards)
    counted = state.directory / f"{state.plan.shards[2].key}.json"
    counted.write_bytes(content)
    with pytest.raises(InputError, match="1 of 5 input shards are not finished"):
        state.parts()
    assert make_parts(state, input_shards) == []
    assert counted.read_text() == "3"
    assert contents(state) == EXPECTED


@pytest.mark.parametrize("given", ["texts", "texts/*", "texts/deep/out/a", "texts/deep/out.parts"])
def test_inputs_and_output_may_not_contain_each_other(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    for folder in ("out", "out.parts"):
        (tmp_path / "texts" / "deep" / folder).mkdir(parents=True)
        (tmp_path / "texts" / "deep" / folder / "a").write_text("text")
    message = r"contains the output .*\. Choose an output outside|would be replaced\. Choose another"
    for name in (given, tmp_path / given):
        with pytest.raises(InputError, match=message):
            check_output_is_not_read(Path("texts/deep/out"), [name])
    inputs = [given, "-", "hf:texts", "s3://texts/deep", "texts/nowhere"]
    check_output_is_not_read(Path("texts-2"), inputs)
    check_output_is_not_read(Path("texts/.cache/out"), ["texts"])
    check_output_is_not_read(Path("texts/deep/out/a/b"), ["texts/deep/out/a"])  # a file: nothing can be in it


def test_other_settings_are_refused(tmp_path, texts):
    state, input_shards = begin_build(tmp_path, texts)
    make_parts(state, input_shards)
    with pytest.raises(
        InputError,
        match=r'out\.parts: was started with language "en", not "de"\. Finish .*, or use --overwrite',
    ):
        begin_build(tmp_path, texts, settings=SETTINGS | {"language": "de"})
    again, input_shards = begin_build(tmp_path, texts, settings=SETTINGS | {"language": "de"}, overwrite=True)
    assert make_parts(again, input_shards) == EXPECTED


def test_options_may_change_except_among_tasks(tmp_path, texts):
    make_parts(*begin_build(tmp_path, texts, options={"size": 1}))
    state, input_shards = begin_build(tmp_path, texts, options={"size": 2})
    assert make_parts(state, input_shards) == []
    assert open_state(tmp_path / "out").plan.options == {"size": 2}
    with pytest.raises(
        InputError, match=r"was started with size 2, not 3\. Finish .* All tasks need the same"
    ):
        begin_build(tmp_path, texts, options={"size": 3}, is_task=True, overwrite=True)


def rewrite(file: Path, text: str) -> None:
    """Change a file as an editor does it, in another moment."""
    before = file.stat().st_mtime_ns
    file.write_bytes(gzip.compress(text.encode()))
    os.utime(file, ns=(before + 1000, before + 1000))


def test_only_a_changed_file_is_read_again(tmp_path, texts):
    make_parts(*begin_build(tmp_path, texts))
    rewrite(texts[2], "2: mended\n")
    state, input_shards = begin_build(tmp_path, [*texts, texts[0]])
    assert make_parts(state, input_shards) == ["2: mended"]
    assert contents(state) == [*EXPECTED[:3], "2: mended", *EXPECTED[6:], EXPECTED[0]]


def test_files_of_one_shard_are_read_again_together(tmp_path, texts):
    reading = ReadingConfig(text_format="sentences")
    make_parts(*begin_build(tmp_path, texts, reading))
    rewrite(texts[2], "2: mended\n")
    state, input_shards = begin_build(tmp_path, texts, reading)
    assert state.count_finished() == 0
    make_parts(state, input_shards)
    assert "2: mended" in " ".join(contents(state))


def test_a_changed_append_does_not_suggest_overwrite(tmp_path, texts):
    make_parts(*begin_build(tmp_path, texts[:2], options={"append": True}))
    with pytest.raises(
        InputError,
        match=r"is no longer an input\. Finish it with the same settings and text, or delete .*out\.parts\.$",
    ):
        begin_build(tmp_path, texts[2:], options={"append": True})


def test_other_text_is_refused(tmp_path, texts):
    make_parts(*begin_build(tmp_path, texts[:2]))
    with pytest.raises(
        InputError,
        match=r"was started with other text: .*text-0 is no longer an input\. Finish .*, or use --overwrite",
    ):
        begin_build(tmp_path, texts[2:])
    with pytest.raises(InputError, match=r"with less text\. Finish .* All tasks need the same"):
        begin_build(tmp_path, texts, is_task=True)
    state, input_shards = begin_build(tmp_path, texts[2:], overwrite=True)
    assert make_parts(state, input_shards) == EXPECTED[3:]


def test_stdin_is_read_each_time(tmp_path, monkeypatch):
    for text in ("one\n", "two\n"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        state, input_shards = begin_build(tmp_path, ["-"])
        make_parts(state, input_shards)
        assert contents(state) == [text.strip()]


def test_stdin_is_read_by_the_main_process(tmp_path, texts, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"from stdin\n")))
    state, input_shards = begin_build(tmp_path, ["-", *texts])
    make_parts(state, input_shards, workers=2)
    assert contents(state) == ["from stdin", *EXPECTED]


def test_parts_of_stdin_are_not_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n\n" * 20)))
    state, input_shards = begin_build(tmp_path, ["-"])
    with pytest.raises(KeyboardInterrupt), state.keep_finished_parts(Progress()):
        make_parts(state, input_shards, stop_after=1)
    assert not state.directory.exists()
    assert capsys.readouterr().err == ""


def test_concurrent_tasks_create_the_directory_once(tmp_path, texts):
    state, barrier = [], threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        state.append(begin_build(tmp_path, texts, is_task=True, write_files=write_files)[0].plan)

    def write_files(directory: Path) -> None:
        (directory / "vocab.txt").write_text("a\n")

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state == [state[0]] * 8
    assert sorted(os.listdir(tmp_path / "out.parts")) == ["build.json", "vocab.txt"]
    assert sorted(os.listdir(tmp_path)) == ["out.parts", *(text.name for text in texts)]


def test_a_state_without_parts_is_removed(tmp_path, texts, capsys):
    state, input_shards = begin_build(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt), state.keep_finished_parts(Progress()):
        make_parts(state, input_shards, stop_after=0)
    assert not state.directory.exists()
    assert capsys.readouterr().err == ""
    state, input_shards = begin_build(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt), state.keep_finished_parts(Progress()):
        make_parts(state, input_shards, stop_after=2)
    kept = f"{state.directory} keeps 2 finished parts; the build resumes"
    assert capsys.readouterr().err == f"{kept} when run again\n"
    with pytest.raises(InputError), state.keep_finished_parts(Progress()):
        raise InputError("not UTF-8")  # running it again alone would report the same
    assert capsys.readouterr().err == f"{kept} once the error is fixed\n"


def test_a_finalized_output_is_recognized(tmp_path, texts):
    state, input_shards = begin_build(tmp_path, texts)
    make_parts(state, input_shards)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    assert not is_finalized(tmp_path / "out")
    state.mark_finalized(tmp_path / "out")
    assert is_finalized(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{ }")
    assert not is_finalized(tmp_path / "out")


@pytest.mark.protected
def test_a_damaged_plan_is_named(tmp_path, texts):
    state, _ = begin_build(tmp_path, texts)
    (state.directory / "build.json").write_text("{")
    with pytest.raises(InputError, match=r"build\.json: damaged .* Delete .*out\.parts"):
        begin_build(tmp_path, texts)


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_link_to_itself_is_named(tmp_path, texts):
    (tmp_path / "loop").symlink_to("loop")
    for output, inputs in ((tmp_path / "out", [tmp_path / "loop"]), (tmp_path / "loop", texts)):
        with pytest.raises(InputError, match="loop: is a link that leads back to itself"):
            check_output_is_not_read(output, inputs)


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_parts_are_next_to_the_target_of_a_link(tmp_path, texts):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk/data")
    state, input_shards = begin_build(tmp_path, texts)
    assert state.directory == tmp_path / "disk/data.parts"
    make_parts(state, input_shards)
    assert contents(open_state(tmp_path / "disk/data")) == EXPECTED


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/", "/1", "-1/3", "1/3/5"])
def test_invalid_tasks_are_refused(text):
    with pytest.raises(InputError, match=r"is not a task\. Write 3/8"):
        ArrayTask.parse(text)


def test_a_task_is_parsed():
    assert ArrayTask.parse("3/8") == ArrayTask(3, 8)


def test_a_plan_survives_json(tmp_path, texts):
    state, _ = begin_build(tmp_path, texts)
    table = json.loads((state.directory / "build.json").read_text())
    assert table == state.plan.to_json()
    assert BuildPlan.from_json(table) == state.plan
