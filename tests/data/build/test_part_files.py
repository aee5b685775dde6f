"""Parts of killed, concurrent and damaged builds are the same, and finished parts are not made again."""

import gzip
import io
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloze.data.build import part_files
from cloze.data.build.directory import check_output_is_not_read, keep_finished_parts, parts_directory
from cloze.data.build.input_shards import BuildRun, ReadingConfig, plan_input_shards
from cloze.data.build.part_files import BuildPlan, list_parts, read_record
from cloze.data.reading.documents import Document
from cloze.errors import InputError, RunError
from cloze.progress import SILENT, Progress
from helpers import flip_bit

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


def plan_of(
    texts: Sequence[Path | str], reading: ReadingConfig = READING, *, language: str = "en", size: int = 1
) -> BuildPlan:
    input_shards = plan_input_shards([str(text) for text in texts], reading)
    return BuildPlan.of(input_shards, {"language": language, "part_characters": 20}, {"size": size})


def make_parts(
    directory: Path, plan: BuildPlan, *, progress: Progress = SILENT, workers: int = 1, **settings: object
) -> list[str]:
    """Make the missing parts, and return their texts, four documents each."""
    made: list[str] = []
    make = partial(write, made=made, **settings)
    directory.mkdir(exist_ok=True)
    run = BuildRun(workers=workers, progress=progress)
    parts = part_files.make_parts(directory, plan, make, label="", counts=("documents",), run=run)
    assert parts == list_parts(directory, plan)
    return made


def contents(parts: Sequence[Path]) -> list[str]:
    return [part.read_text() for part in parts]


EXPECTED = [
    " ".join(f"{number}: {n:02}" for n in range(start, min(start + 4, 4 * number + 1)))
    for number in range(5)
    for start in range(0, 4 * number + 1, 4)
]


def test_parts_are_in_the_order_of_the_text(tmp_path, texts, monkeypatch):
    plan = plan_of(texts)
    assert make_parts(tmp_path / "p", plan) == EXPECTED
    parts = list_parts(tmp_path / "p", plan)
    assert contents(parts) == EXPECTED
    assert [read_record(part)["documents"] for part in parts] == [len(text.split()) // 2 for text in EXPECTED]
    monkeypatch.setattr(part_files, "read_documents", None)  # a finished shard is not read
    assert make_parts(tmp_path / "p", plan_of(texts)) == []


@pytest.mark.parametrize("stop_after", range(len(EXPECTED)))
@pytest.mark.protected
def test_finished_parts_are_not_made_again(tmp_path, texts, stop_after):
    with pytest.raises(KeyboardInterrupt):
        make_parts(tmp_path / "p", plan_of(texts), stop_after=stop_after)
    assert make_parts(tmp_path / "p", plan_of(texts)) == EXPECTED[stop_after:]
    assert contents(list_parts(tmp_path / "p", plan_of(texts))) == EXPECTED


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
def test_a_damaged_part_is_made_again(tmp_path, texts, damage):
    plan = plan_of(texts)
    make_parts(tmp_path / "p", plan)
    damage(list_parts(tmp_path / "p", plan)[3])
    with pytest.raises(RunError, match="1 of 5 input shards are not finished"):
        list_parts(tmp_path / "p", plan)
    assert make_parts(tmp_path / "p", plan) == EXPECTED[3:4]
    assert contents(list_parts(tmp_path / "p", plan)) == EXPECTED


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff"])
@pytest.mark.protected
def test_a_shard_with_a_damaged_part_count_is_read_again(tmp_path, texts, content):
    plan = plan_of(texts)
    make_parts(tmp_path / "p", plan)
    counted = tmp_path / "p" / f"{plan.keys[2]}.json"
    counted.write_bytes(content)
    with pytest.raises(RunError, match="1 of 5 input shards are not finished"):
        list_parts(tmp_path / "p", plan)
    assert make_parts(tmp_path / "p", plan) == []
    assert counted.read_text() == "3"
    assert contents(list_parts(tmp_path / "p", plan)) == EXPECTED


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
    inputs = [given, "-", "s3://texts/deep", "texts/nowhere"]
    check_output_is_not_read(Path("texts-2"), inputs)
    check_output_is_not_read(Path("texts/deep/out/a/b"), ["texts/deep/out/a"])  # a file: nothing can be in it


def rewrite(file: Path, text: str) -> None:
    """Change a file as an editor does it, in another moment."""
    before = file.stat().st_mtime_ns
    file.write_bytes(gzip.compress(text.encode()))
    os.utime(file, ns=(before + 1000, before + 1000))


def test_parts_depend_on_their_settings_and_files_alone(tmp_path, texts):
    make_parts(tmp_path / "p", plan_of(texts))
    assert make_parts(tmp_path / "p", plan_of(texts, size=2)) == []
    assert make_parts(tmp_path / "p", plan_of(texts, language="de")) == EXPECTED
    rewrite(texts[2], "2: mended\n")
    plan = plan_of([*texts, texts[0]])
    assert make_parts(tmp_path / "p", plan) == ["2: mended"]
    expected = [*EXPECTED[:3], "2: mended", *EXPECTED[6:], EXPECTED[0]]
    assert contents(list_parts(tmp_path / "p", plan)) == expected


def test_stdin_is_read_each_time(tmp_path, monkeypatch):
    for text in ("one\n", "two\n"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        plan = plan_of(["-"])
        make_parts(tmp_path / "p", plan)
        assert contents(list_parts(tmp_path / "p", plan)) == [text.strip()]


def test_stdin_is_read_by_the_main_process(tmp_path, texts, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"from stdin\n")))
    plan = plan_of(["-", *texts])
    make_parts(tmp_path / "p", plan, workers=2)
    assert contents(list_parts(tmp_path / "p", plan)) == ["from stdin", *EXPECTED]


def test_parts_of_stdin_are_not_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n\n" * 20)))
    plan, other = plan_of(["-"]), plan_of(["-"])
    with (
        pytest.raises(KeyboardInterrupt),
        keep_finished_parts(tmp_path / "out", plan, Progress()) as directory,
    ):
        make_parts(directory, plan, stop_after=1)
    assert not directory.exists()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"two\n\n")))
    with keep_finished_parts(tmp_path / "out", other, SILENT):  # runs at the same time
        made = make_parts(directory, other)
        with pytest.raises(KeyboardInterrupt), keep_finished_parts(tmp_path / "out", plan, SILENT):
            raise KeyboardInterrupt
        assert contents(list_parts(directory, other)) == made == ["two"]


def test_a_directory_without_parts_is_removed(tmp_path, texts, capsys):
    plan, directory = plan_of(texts), parts_directory(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt), keep_finished_parts(tmp_path / "out", plan, Progress()):
        make_parts(directory, plan, stop_after=0)
    assert not directory.exists()
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), keep_finished_parts(tmp_path / "out", plan, Progress()):
        make_parts(directory, plan, stop_after=1)
    assert capsys.readouterr().err == f"{directory} keeps 1 finished part; the build resumes when run again\n"
    with pytest.raises(KeyboardInterrupt), keep_finished_parts(tmp_path / "out", plan, Progress()):
        make_parts(directory, plan, stop_after=1)
    kept = f"{directory} keeps 2 finished parts; the build resumes when run again\n"
    assert capsys.readouterr().err == kept


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_link_to_itself_is_named(tmp_path, texts):
    (tmp_path / "loop").symlink_to("loop")
    for output, inputs in ((tmp_path / "out", [tmp_path / "loop"]), (tmp_path / "loop", texts)):
        with pytest.raises(InputError, match="loop: is a link that leads back to itself"):
            check_output_is_not_read(output, inputs)


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_parts_are_next_to_the_target_of_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk/data")
    assert parts_directory(tmp_path / "out") == tmp_path / "disk/data.parts"
