"""Work that is cut off at any place, shared out or damaged ends in the same parts, and nothing is done twice."""

import io
import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from cloze.corpus import documents, sources, stage
from cloze.corpus.documents import Document
from cloze.corpus.sources import ReadingConfig, Stretch, plan_stretches
from cloze.corpus.stage import Stage, Task, begin, is_sealed, refuse_to_read, reopen
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from helpers import flip_a_bit

SETTINGS = {"language": "en"}
READING = ReadingConfig(text_format="sentences")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is a stretch, and four documents are a part."""
    monkeypatch.setattr(sources, "_STRETCH_BYTES", 1)
    monkeypatch.setattr(sources, "_CUT_FORMATS", ())
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 20)


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    """Five files of 1, 5, 9, 13 and 17 documents, each document of five characters."""
    files = []
    for number in range(5):
        files.append(tmp_path / f"text-{number}")
        files[-1].write_text("".join(f"{number}: {n:02}\n\n" for n in range(4 * number + 1)))
    return files


def write(documents: list[Document], path: Path, *, made: list[str], stop_after: int = 10**9) -> dict:
    """Make a part of documents: their text."""
    if len(made) == stop_after:
        raise KeyboardInterrupt
    text = " ".join(line for document in documents for line in document.lines)
    path.write_text(text)
    made.append(text)
    return {"documents": len(documents)}


def begun(tmp_path: Path, texts: Sequence[Path | str], **changes: object) -> tuple[Stage, list[Stretch]]:
    stretches = plan_stretches([str(text) for text in texts], READING)
    arguments = {"settings": SETTINGS, "sealing": {}} | changes
    return begin(tmp_path / "out", stretches, **arguments), stretches


def work(
    stage: Stage, stretches: Sequence[Stretch], task: Task = stage.ALONE, **settings: object
) -> list[str]:
    """Work as long as there is work, and return the texts that were made parts of."""
    made: list[str] = []
    with SILENT.bar("", total=None) as bar:
        make = partial(write, made=made, **settings)
        list(stage.work(stretches, make, workers=1, bar=bar, task=task))
    return made


def contents(stage: Stage) -> list[str]:
    return [part.path.read_text() for part in stage.parts()]


EXPECTED = [
    " ".join(f"{number}: {n:02}" for n in range(start, min(start + 4, 4 * number + 1)))
    for number in range(5)
    for start in range(0, 4 * number + 1, 4)
]


def test_parts_are_in_the_order_of_the_text(tmp_path, texts):
    stage, stretches = begun(tmp_path, texts)
    assert work(stage, stretches) == EXPECTED
    assert contents(stage) == EXPECTED
    assert [part.record["documents"] for part in stage.parts()] == [
        len(text.split()) // 2 for text in EXPECTED
    ]
    assert work(*begun(tmp_path, texts)) == []


@pytest.mark.parametrize("stop_after", range(len(EXPECTED)))
def test_what_is_finished_is_not_done_again(tmp_path, texts, stop_after):
    stage, stretches = begun(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt):
        work(stage, stretches, stop_after=stop_after)
    again, stretches = begun(tmp_path, texts)
    assert work(again, stretches) == EXPECTED[stop_after:]
    assert contents(again) == EXPECTED


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 11, 40])
def test_tasks_share_the_work_and_nothing_else(tmp_path, texts, count):
    made = []
    for number in range(count, 0, -1):  # in any order
        stage, stretches = begun(tmp_path, texts, is_task=True)
        made += work(stage, stretches, Task(number, count))
    assert sorted(made) == EXPECTED
    assert contents(stage) == EXPECTED


def test_a_finished_stretch_is_not_read(tmp_path, texts, monkeypatch):
    work(*begun(tmp_path, texts))
    monkeypatch.setattr(stage, "read_documents", None)
    assert work(*begun(tmp_path, texts)) == []


def test_what_is_missing_is_named(tmp_path, texts):
    for number in (1, 4):
        found, stretches = begun(tmp_path, texts, is_task=True)
        work(found, stretches, Task(number, 5))
    with pytest.raises(
        InputError, match=r"3 of 5 stretches .* first is of .*text-1; tasks 2, 3, 5 of 5 are not"
    ):
        found.parts()
    with pytest.raises(InputError, match="no parts"):
        reopen(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    "damage",
    [
        flip_a_bit,
        lambda part: part.write_bytes(part.read_bytes()[:-1]),
        lambda part: part.write_bytes(b""),
        Path.unlink,
        lambda part: part.with_suffix(".json").write_text(""),
        lambda part: part.with_suffix(".json").write_text("{}"),
    ],
)
def test_a_damaged_part_is_made_again(tmp_path, texts, damage, capsys):
    stage, stretches = begun(tmp_path, texts)
    work(stage, stretches)
    damage(stage.parts()[3].path)
    made: list[str] = []
    with SILENT.bar("", total=None) as bar:
        make = partial(write, made=made)
        list(stage.work_until_whole(stretches, make, workers=1, bar=bar, progress=Progress()))
    assert made == EXPECTED[3:4]
    assert contents(stage) == EXPECTED
    assert "1 parts are damaged and made again, the first is " in capsys.readouterr().err
    assert stage.discard_damaged() == []


@pytest.mark.parametrize("content", [b"", b"[1", b"\xff"])
def test_where_a_stretch_does_not_say_how_many_parts_it_has_it_is_read_again(tmp_path, texts, content):
    stage, stretches = begun(tmp_path, texts)
    work(stage, stretches)
    counted = stage.directory / f"{stage.keys[2]}.json"
    counted.write_bytes(content)
    with pytest.raises(InputError, match="1 of 5 stretches of text are not finished"):
        stage.parts()
    assert work(stage, stretches) == []
    assert counted.read_text() == "3"
    assert contents(stage) == EXPECTED


@pytest.mark.parametrize("given", ["texts", "texts/*", "texts/deep/out/a", "texts/deep/out.parts"])
def test_what_is_read_and_the_output_do_not_hold_one_another(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    for folder in ("out", "out.parts"):
        (tmp_path / "texts" / "deep" / folder).mkdir(parents=True)
        (tmp_path / "texts" / "deep" / folder / "a").write_text("text")
    message = (
        r"is to be read, and (the output .* is in it\. Choose an output outside|replaced\. Choose another)"
    )
    for name in (given, tmp_path / given):
        with pytest.raises(InputError, match=message):
            refuse_to_read(Path("texts/deep/out"), [name])
    inputs = [given, "-", "hf:texts", "s3://texts/deep", "texts/nowhere"]
    refuse_to_read(Path("texts-2"), inputs)
    refuse_to_read(Path("texts/.cache/out"), ["texts"])
    refuse_to_read(Path("texts/deep/out/a/b"), ["texts/deep/out/a"])  # a file: nothing can be in it


def test_other_settings_are_refused(tmp_path, texts):
    found, stretches = begun(tmp_path, texts)
    work(found, stretches)
    with pytest.raises(
        InputError,
        match=r'out\.parts: was begun with language "en", not "de"\. Finish .*, or say --overwrite',
    ):
        begun(tmp_path, texts, settings={"language": "de"})
    anew, stretches = begun(tmp_path, texts, settings={"language": "de"}, overwrite=True)
    assert work(anew, stretches) == EXPECTED


def test_what_parts_do_not_depend_on_may_change(tmp_path, texts):
    work(*begun(tmp_path, texts, sealing={"size": 1}))
    stage, stretches = begun(tmp_path, texts, sealing={"size": 2})
    assert work(stage, stretches) == []
    assert reopen(tmp_path / "out").plan["sealing"] == {"size": 2}
    with pytest.raises(
        InputError, match=r"was begun with size 2, not 3\. Finish .* Say the same for all tasks"
    ):
        begun(tmp_path, texts, sealing={"size": 3}, is_task=True, overwrite=True)


def rewrite(file: Path, text: str) -> None:
    """Change a file as an editor does it, in another moment."""
    before = file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=(before + 1000, before + 1000))


def test_of_a_text_that_was_mended_the_mended_file_is_read_again(tmp_path, texts):
    work(*begun(tmp_path, texts))
    rewrite(texts[2], "2: mended\n")
    stage, stretches = begun(tmp_path, [*texts, texts[0]])
    assert work(stage, stretches) == ["2: mended"]
    assert contents(stage) == [*EXPECTED[:3], "2: mended", *EXPECTED[6:], EXPECTED[0]]


def test_small_files_that_are_read_together_are_read_again_together(tmp_path, texts, monkeypatch):
    monkeypatch.setattr(sources, "_STRETCH_BYTES", 10**9)
    work(*begun(tmp_path, texts))
    rewrite(texts[2], "2: mended\n")
    stage, stretches = begun(tmp_path, texts)
    assert stage.count_finished() == 0
    work(stage, stretches)
    assert "2: mended" in " ".join(contents(stage))


def test_what_is_appended_is_not_overwritten(tmp_path, texts):
    work(*begun(tmp_path, texts[:2], sealing={"append": True}))
    with pytest.raises(
        InputError, match=r"is none of it now\. Finish it as it was begun, or delete .*out\.parts\.$"
    ):
        begun(tmp_path, texts[2:], sealing={"append": True})


def test_other_text_is_refused(tmp_path, texts):
    work(*begun(tmp_path, texts[:2]))
    with pytest.raises(
        InputError,
        match=r"was begun with other text: .*text-0 is none of it now\. Finish .*, or say --overwrite",
    ):
        begun(tmp_path, texts[2:])
    with pytest.raises(InputError, match=r"with less text\. Finish .* Say the same for all tasks"):
        begun(tmp_path, texts, is_task=True)
    stage, stretches = begun(tmp_path, texts[2:], overwrite=True)
    assert work(stage, stretches) == EXPECTED[3:]


def test_stdin_is_read_anew(tmp_path, monkeypatch):
    for text in ("one\n", "two\n"):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        stage, stretches = begun(tmp_path, ["-"])
        work(stage, stretches)
        assert contents(stage) == [text.strip()]


def test_stdin_is_read_here_whatever_the_workers(tmp_path, texts, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"from stdin\n")))
    stage, stretches = begun(tmp_path, ["-", *texts])
    with SILENT.bar("", total=None) as bar:
        list(stage.work(stretches, partial(write, made=[]), workers=2, bar=bar))
    assert contents(stage) == ["from stdin", *EXPECTED]


def test_what_was_read_from_stdin_is_not_gone_on_with(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n\n" * 20)))
    stage, stretches = begun(tmp_path, ["-"])
    with pytest.raises(KeyboardInterrupt), stage.kept_if_of_use(Progress()):
        work(stage, stretches, stop_after=1)
    assert not stage.directory.exists()
    assert capsys.readouterr().err == ""


def test_of_tasks_that_begin_at_once_one_makes_the_directory(tmp_path, texts):
    found, barrier = [], threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        found.append(begun(tmp_path, texts, is_task=True, fill=fill)[0].plan)

    def fill(directory: Path) -> None:
        (directory / "vocab.txt").write_text("a\n")

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 8
    assert sorted(os.listdir(tmp_path / "out.parts")) == ["build.json", "vocab.txt"]
    assert sorted(os.listdir(tmp_path)) == ["out.parts", *(text.name for text in texts)]


def test_a_stage_of_no_use_is_removed(tmp_path, texts, capsys):
    stage, stretches = begun(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt), stage.kept_if_of_use(Progress()):
        work(stage, stretches, stop_after=0)
    assert not stage.directory.exists()
    assert capsys.readouterr().err == ""
    stage, stretches = begun(tmp_path, texts)
    with pytest.raises(KeyboardInterrupt), stage.kept_if_of_use(Progress()):
        work(stage, stretches, stop_after=2)
    assert "out.parts keeps 2 finished parts: run it again to go on" in capsys.readouterr().err


def test_what_was_sealed_is_known(tmp_path, texts):
    stage, stretches = begun(tmp_path, texts)
    work(stage, stretches)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}")
    assert not is_sealed(tmp_path / "out")
    stage.when_sealed(tmp_path / "out")
    assert is_sealed(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{ }")
    assert not is_sealed(tmp_path / "out")


def test_a_damaged_plan_is_named(tmp_path, texts):
    stage, _ = begun(tmp_path, texts)
    (stage.directory / "build.json").write_text("{")
    with pytest.raises(InputError, match=r"build\.json: damaged .* Delete .*out\.parts"):
        begun(tmp_path, texts)


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_a_link_that_leads_back_to_itself_is_named(tmp_path, texts):
    (tmp_path / "loop").symlink_to("loop")
    for output, inputs in ((tmp_path / "out", [tmp_path / "loop"]), (tmp_path / "loop", texts)):
        with pytest.raises(InputError, match="loop: is a link that leads back to itself"):
            refuse_to_read(output, inputs)


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_parts_lie_on_the_disk_of_the_output_that_a_link_leads_to(tmp_path, texts):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk/data")
    stage, stretches = begun(tmp_path, texts)
    assert stage.directory == tmp_path / "disk/data.parts"
    work(stage, stretches)
    assert contents(reopen(tmp_path / "disk/data")) == EXPECTED


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/", "/1", "-1/3", "1/3/5"])
def test_what_is_no_task(text):
    with pytest.raises(InputError, match=r"is no task\. Say --task 3/8"):
        Task.parse(text)


def test_a_task():
    assert Task.parse("3/8") == Task(3, 8)


def test_a_plan_is_one_that_json_can_hold(tmp_path, texts):
    stage, _ = begun(tmp_path, texts)
    assert json.loads((stage.directory / "build.json").read_text()) == stage.plan
