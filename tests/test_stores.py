"""Text from an object store and data sets to it: a server of S3's protocol on this machine, with failures."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from cloze import artifacts
from cloze.cli import main
from cloze.corpus.streams import open_bytes
from cloze.errors import InputError, RunError
from cloze.stores import files_at, open_url, publish, size_of, version_of, write_file_to, write_to

SENTENCES = [
    f"The {noun} ran down from the {place}." for noun in ("river", "dog") for place in ("hill", "town")
]

# what s3fs leaves to the garbage collector, when its loop is gone
pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def fill(system: Any, folder: Path) -> None:
    """Two text files, one compressed, and a hidden one; the same on this machine."""
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join([*SENTENCES * 30, "", *SENTENCES * 20]) + "\n")
    (folder / "b.txt.xz").write_bytes(lzma.compress(("\n".join(SENTENCES * 40) + "\n").encode()))
    (folder / ".hidden").write_text("nothing\n")
    for file in folder.iterdir():
        system.put_file(str(file), f"library/texts/{file.name}")


def test_files_are_found_read_and_told_apart(bucket: Any, tmp_path: Path) -> None:
    fill(bucket, tmp_path / "texts")
    expected = ["s3://library/texts/a.txt", "s3://library/texts/b.txt.xz"]
    assert files_at("s3://library/texts") == files_at("s3://library/texts/*") == expected
    assert files_at(expected[0]) == expected[:1]
    text = (tmp_path / "texts/a.txt").read_bytes()
    assert size_of(expected[0]) == len(text)
    with open_url(expected[0]) as stream:
        stream.seek(7)
        assert stream.read() == text[7:]
    before = version_of(expected[0])
    bucket.pipe_file("library/texts/a.txt", text[::-1])
    assert version_of(expected[0]) != before
    with pytest.raises(InputError, match=r"s3://library/other: no such file"):
        files_at("s3://library/other")
    with pytest.raises(InputError, match=r"s3://nobodys/x: "):
        files_at("s3://nobodys/x")


def test_what_is_made_of_a_store_is_what_is_made_of_the_same_files_here(
    bucket: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(bucket, tmp_path / "texts")
    vocab, workers = str(tmp_path / "vocab"), ("--workers", "1", "--quiet")
    assert main(["vocab", str(tmp_path / "texts"), "-o", vocab, "--size", "40", *workers]) == 0
    assert (
        main(["corpus", str(tmp_path / "texts"), "--vocab", vocab, "-o", str(tmp_path / "data"), *workers])
        == 0
    )
    assert main(["corpus", "s3://library/texts", "--vocab", vocab, "-o", "s3://library/data", *workers]) == 0
    for name, record in artifacts.verify(tmp_path / "data").files.items():
        if name != "report.json":  # it names the files that were read
            assert bucket.cat_file(f"library/data/{name}") == (tmp_path / "data" / name).read_bytes(), record
    assert not list((tmp_path / "cache").rglob("*.arrow"))
    capsys.readouterr()
    shipped = ["corpus", "s3://library/texts", "--vocab", "cloze-mini", "-o", "s3://library/mini", *workers]
    assert main(shipped) == 0
    assert main(["corpus", "s3://library/texts", "--vocab", vocab, "-o", "s3://library/data", *workers]) == 2
    assert (
        "s3://library/data: exists already. Choose another name or say --overwrite."
        in capsys.readouterr().err
    )


def test_a_copy_that_waits_is_sent_for_what_it_was_made_of(bucket: Any, tmp_path: Path) -> None:
    room = tmp_path / "room"

    def stop(directory: Path) -> None:
        a_directory(directory, "old")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_to("s3://library/one", stop, asked=lambda: "old", room=room)
    write_to(
        "s3://library/one", lambda directory: a_directory(directory, "new"), asked=lambda: "new", room=room
    )
    assert bucket.cat_file("library/one/part-0") == b"new"
    write_to("s3://library/two", lambda directory: a_directory(directory, "two"), asked=lambda: 2, room=room)
    with pytest.raises(KeyboardInterrupt):
        write_to("s3://library/three", stop, asked=lambda: "old", room=room)
    write_to("s3://library/three", stop, asked=lambda: "old", room=room)
    assert bucket.cat_file("library/three/part-0") == b"old"


def a_directory(path: Path, text: str) -> Path:
    with artifacts.write_directory(path, kind="dataset") as directory:
        for number in range(5):
            (directory / f"part-{number}").write_text(text * (number + 1))
    return path


def test_a_copy_that_was_cut_off_is_none_and_is_gone_on_with(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = a_directory(tmp_path / "one", "text")
    sent: list[str] = []
    put_file = bucket.put_file

    def fail_once(source: str, target: str, **kwargs: Any) -> None:
        if len(sent) == 3:
            sent.append("failed")
            raise OSError("Connection reset by peer")
        sent.append(target)
        put_file(source, target, **kwargs)

    monkeypatch.setattr(bucket, "put_file", fail_once)  # fsspec gives each of its callers this one object
    with pytest.raises(RunError, match="s3://library/copy: the store refuses: Connection reset by peer"):
        publish(directory, "s3://library/copy")
    assert not bucket.exists("library/copy/manifest.json")
    publish(directory, "s3://library/copy")
    assert len(sent) == 3 + 1 + 2  # what was there was not sent again
    names = {Path(name).name for name in bucket.find("library/copy")}
    assert names == {"manifest.json", *(f"part-{n}" for n in range(5))}
    publish(directory, "s3://library/copy")
    assert len(sent) == 6
    other = a_directory(tmp_path / "other", "others")
    with pytest.raises(InputError, match="exists already"):
        publish(other, "s3://library/copy")
    publish(other, "s3://library/copy", overwrite=True)
    written = json.loads(bucket.cat_file("library/copy/manifest.json"))
    assert written == json.loads((other / "manifest.json").read_text())
    assert bucket.cat_file("library/copy/part-1") == b"othersothers"


def test_files_of_another_directory_are_not_taken_for_sent(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(a_directory(tmp_path / "one", "text"), "s3://library/again")
    bucket.pipe_file("library/again/of-the-user", b"stays")
    other = a_directory(tmp_path / "other", "next")  # the same names and sizes
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "put_file", lambda source, target, **kwargs: 1 / 0)
        with pytest.raises(RunError, match="s3://library/again: the store refuses"):
            publish(other, "s3://library/again", overwrite=True)
    publish(other, "s3://library/again", overwrite=True)
    for number in range(5):
        assert bucket.cat_file(f"library/again/part-{number}") == b"next" * (number + 1)
    assert bucket.cat_file("library/again/of-the-user") == b"stays"


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_not_replaced(bucket: Any, tmp_path: Path, overwrite: bool) -> None:
    directory = a_directory(tmp_path / "one", "text")
    bucket.pipe_file("library/others/part-1", b"of somebody else")
    what = "holds files that cloze did not write, so nothing there is replaced"
    with pytest.raises(InputError, match=f"s3://library/others: {what}"):
        publish(directory, "s3://library/others", overwrite=overwrite)
    with pytest.raises(InputError, match=what):
        write_to("s3://library/others", print, asked=lambda: 1, room=tmp_path, overwrite=overwrite)
    with pytest.raises(InputError, match="is a file, and a directory shall be written"):
        publish(directory, "s3://library/others/part-1", overwrite=overwrite)
    assert bucket.cat_file("library/others/part-1") == b"of somebody else"
    assert [Path(name).name for name in bucket.find("library/others")] == ["part-1"]
    bucket.pipe_file("library/repository/.gitattributes", b"")
    publish(directory, "s3://library/repository", overwrite=overwrite)


def test_replacing_that_was_cut_off_is_gone_on_with(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_directory(tmp_path / "old", "text")
    with artifacts.write_directory(tmp_path / "new", kind="dataset") as new:
        (new / "other").write_text("new")
    publish(old, "s3://library/cut")
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "rm_file", fails_after(2, bucket.rm_file))  # the manifest and a file are gone
        with pytest.raises(RunError, match="Connection reset"):
            publish(tmp_path / "new", "s3://library/cut", overwrite=True)
    publish(tmp_path / "new", "s3://library/cut")
    assert {Path(name).name for name in bucket.find("library/cut")} == {"manifest.json", "other"}


def fails_after(times: int, does: Any) -> Any:
    """Do what `does` does so many times, and then fail."""
    left = iter(range(times))

    def do(*args: Any, **kwargs: Any) -> Any:
        if next(left, None) is None:
            raise OSError("Connection reset by peer")
        return does(*args, **kwargs)

    return do


def test_a_directory_that_could_not_be_sent_is_named(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = tmp_path / "room"
    monkeypatch.setattr(bucket, "put_file", lambda source, target, **kwargs: 1 / 0)
    with pytest.raises(RunError, match=rf"Run it again to go on: it is kept in {room}/\w+/refused"):
        write_to("s3://library/refused", lambda path: a_directory(path, "text"), asked=lambda: 1, room=room)


def test_a_directory_of_this_machine_by_its_url(tmp_path: Path) -> None:
    write_to(
        f"file://{tmp_path}/one", lambda path: a_directory(path, "text"), asked=lambda: 1, room=tmp_path / "r"
    )
    artifacts.verify(tmp_path / "one", kind="dataset")


def test_what_is_wrong_with_a_file_is_not_the_store_s_doing(bucket: Any) -> None:
    cut = lzma.compress(b"some text\n" * 1000)[:-20]
    bucket.pipe_file("library/cut.txt.xz", cut)
    message = r"s3://library/cut.txt.xz: cannot be read: .*damaged or cut short: copy it anew"
    with pytest.raises(InputError, match=message), open_bytes("s3://library/cut.txt.xz") as (stream, _):
        stream.read()


def test_a_file_system_by_its_url_has_the_file_when_it_is_whole(tmp_path: Path) -> None:
    url, room = f"file://{tmp_path}/out.txt", tmp_path / "room"
    with write_file_to(url, room=room) as temporary:
        temporary.write_text("all")
        assert not (tmp_path / "out.txt").exists()
    assert (tmp_path / "out.txt").read_text() == "all"
    with pytest.raises(ZeroDivisionError), write_file_to(url, room=room) as temporary:
        temporary.write_text(str(1 / 0))
    assert (tmp_path / "out.txt").read_text() == "all"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["out.txt"]


def test_a_store_whose_library_is_missing_is_named() -> None:
    with pytest.raises(InputError, match=r"gs://bucket/x: needs the package gcsfs.*Say pip install gcsfs"):
        files_at("gs://bucket/x")
