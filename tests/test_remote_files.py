"""Read text from an object store and write data sets to it: a local S3 server, with failures."""

import lzma
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest

from cloze import artifacts
from cloze.cli import main
from cloze.data.reading.files import open_decompressed
from cloze.errors import InputError, RunError
from cloze.remote_files import (
    list_files,
    open_url,
    remote_size,
    remote_version,
    upload_directory,
    write_directory_to,
    write_file_to,
)

SENTENCES = [
    f"The {noun} ran down from the {place}." for noun in ("river", "dog") for place in ("hill", "town")
]

# s3fs leaves connections to the garbage collector after its event loop is closed
pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def write_texts(system: Any, folder: Path) -> None:
    """Write two text files, one compressed, and a hidden file, both locally and to the store."""
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join([*SENTENCES * 30, "", *SENTENCES * 20]) + "\n")
    (folder / "b.txt.xz").write_bytes(lzma.compress(("\n".join(SENTENCES * 40) + "\n").encode()))
    (folder / ".hidden").write_text("nothing\n")
    for file in folder.iterdir():
        system.put_file(str(file), f"library/texts/{file.name}")


@pytest.mark.slow
def test_remote_files_are_listed_read_and_versioned(bucket, tmp_path):
    write_texts(bucket, tmp_path / "texts")
    expected = ["s3://library/texts/a.txt", "s3://library/texts/b.txt.xz"]
    assert list_files("s3://library/texts") == list_files("s3://library/texts/*") == expected
    assert list_files(expected[0]) == expected[:1]
    text = (tmp_path / "texts/a.txt").read_bytes()
    assert remote_size(expected[0]) == len(text)
    with open_url(expected[0]) as stream:
        stream.seek(7)
        assert stream.read() == text[7:]
    before = remote_version(expected[0])
    bucket.pipe_file("library/texts/a.txt", text[::-1])
    assert remote_version(expected[0]) != before
    with pytest.raises(InputError, match=r"s3://library/other: no such file"):
        list_files("s3://library/other")
    with pytest.raises(InputError, match=r"s3://nobodys/x: "):
        list_files("s3://nobodys/x")


@pytest.mark.slow
def test_corpus_from_a_store_equals_corpus_from_local_files(bucket, tmp_path, capsys):
    write_texts(bucket, tmp_path / "texts")
    vocab, workers = str(tmp_path / "vocab"), ("--workers", "1", "--quiet")

    def build(texts: str, output: str, vocabulary: str = vocab) -> int:
        return main(["corpus", texts, "--vocabulary", vocabulary, "-o", output, *workers])

    assert main(["vocab", str(tmp_path / "texts"), "-o", vocab, "--size", "40", *workers]) == 0
    assert build(str(tmp_path / "texts"), str(tmp_path / "data")) == 0
    assert build("s3://library/texts", "s3://library/data") == 0
    for name, record in artifacts.verify(tmp_path / "data").files.items():
        if name != "report.json":  # contains the names of the inputs
            assert bucket.cat_file(f"library/data/{name}") == (tmp_path / "data" / name).read_bytes(), record
    assert not list((tmp_path / "cache").rglob("*.arrow"))
    capsys.readouterr()
    assert build("s3://library/texts", "s3://library/mini", "cloze-mini") == 0
    assert build("s3://library/texts", "s3://library/data") == 2
    message = "s3://library/data: already exists. Choose another name or pass --overwrite."
    assert message in capsys.readouterr().err


def write_parts(path: Path, text: str) -> Path:
    with artifacts.write_directory(path, kind="dataset") as directory:
        for number in range(5):
            (directory / f"part-{number}").write_text(text * (number + 1))
    return path


@pytest.mark.slow
@pytest.mark.protected
def test_interrupted_upload_is_not_taken_for_a_complete_one(bucket, tmp_path, monkeypatch):
    directory = write_parts(tmp_path / "one", "text")
    with monkeypatch.context() as patch:
        patch.setattr(bucket, "put_file", fail_after(3, bucket.put_file))  # fsspec caches this object
        with pytest.raises(RunError, match="s3://library/copy: the store refuses: Connection reset by peer"):
            upload_directory(directory, "s3://library/copy")
    assert len(bucket.find("library/copy")) == 3
    with pytest.raises(InputError, match="contains an incomplete upload"):
        upload_directory(directory, "s3://library/copy", overwrite=True)


@pytest.mark.slow
@pytest.mark.protected
def test_an_upload_replaces_its_own_files_alone(bucket, tmp_path):
    upload_directory(write_parts(tmp_path / "one", "text"), "s3://library/copy")
    bucket.pipe_file("library/copy/of-the-user", b"stays")
    with artifacts.write_directory(tmp_path / "other", kind="dataset") as other:
        (other / "other").write_text("new")
    with pytest.raises(InputError, match="already exists"):
        upload_directory(tmp_path / "other", "s3://library/copy")
    upload_directory(tmp_path / "other", "s3://library/copy", overwrite=True)
    written = {Path(name).name: bucket.cat_file(name) for name in bucket.find("library/copy")}
    manifest = (tmp_path / "other" / "manifest.json").read_bytes()
    assert written == {"manifest.json": manifest, "other": b"new", "of-the-user": b"stays"}


OUTSIDE = "copy/../outside"  # as a store may call it


@pytest.mark.parametrize(
    ("manifest", "left"),
    [
        (b'{"files": {"old": {}, "../outside": {}}}', [OUTSIDE]),
        (b"cut short", [OUTSIDE, "copy/old"]),
        (b"[]", [OUTSIDE, "copy/old"]),
    ],
)
def test_an_upload_deletes_files_of_the_old_manifest_and_no_others(tmp_path, manifest, left):
    store, root = fsspec.filesystem("memory"), f"/{tmp_path.name}"
    for name, content in {OUTSIDE: b"", "copy/old": b"", "copy/manifest.json": manifest}.items():
        store.pipe_file(f"{root}/{name}", content)
    directory = write_parts(tmp_path / "one", "text")
    with pytest.raises(InputError, match="already exists"):
        upload_directory(directory, f"memory:/{root}/copy")
    upload_directory(directory, f"memory:/{root}/copy", overwrite=True)
    uploaded = [f"{root}/copy/{path.name}" for path in directory.iterdir()]
    assert sorted(store.find(root)) == sorted([*uploaded, *(f"{root}/{name}" for name in left)])


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("overwrite", [False, True])
def test_files_that_cloze_did_not_write_are_not_replaced(bucket, tmp_path, overwrite):
    directory = write_parts(tmp_path / "one", "text")
    bucket.pipe_file("library/others/part-1", b"of somebody else")
    what = "contains an incomplete upload or files that cloze did not write, so nothing is replaced"
    with pytest.raises(InputError, match=f"s3://library/others: {what}"):
        upload_directory(directory, "s3://library/others", overwrite=overwrite)
    with (
        pytest.raises(InputError, match=what),
        write_directory_to("s3://library/others", overwrite=overwrite),
    ):
        pass
    with pytest.raises(InputError, match="is a file, not a directory"):
        upload_directory(directory, "s3://library/others/part-1", overwrite=overwrite)
    assert bucket.cat_file("library/others/part-1") == b"of somebody else"
    assert [Path(name).name for name in bucket.find("library/others")] == ["part-1"]
    bucket.pipe_file("library/repository/.gitattributes", b"")
    upload_directory(directory, "s3://library/repository", overwrite=overwrite)


def fail_after(calls: int, function: Any) -> Any:
    """Return a function that fails after some calls."""
    remaining = iter(range(calls))

    def call(*args: Any, **kwargs: Any) -> Any:
        if next(remaining, None) is None:
            raise OSError("Connection reset by peer")
        return function(*args, **kwargs)

    return call


@pytest.mark.slow
@pytest.mark.protected
def test_failed_upload_names_the_staged_directory(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(bucket, "put_file", lambda source, target, **kwargs: 1 / 0)
    message = rf"Copy it from {tmp_path}/cache/cloze/\w+/refused, where it is kept, with manifest.json last"
    with pytest.raises(RunError, match=message), write_directory_to("s3://library/refused") as staged:
        write_parts(staged, "text")
    monkeypatch.undo()
    with write_directory_to("s3://library/refused") as staged:
        write_parts(staged, "next")
    assert bucket.cat_file("library/refused/part-0") == b"next"


@pytest.mark.slow
@pytest.mark.protected
def test_damaged_remote_file_is_not_a_store_error(bucket):
    cut = lzma.compress(b"some text\n" * 1000)[:-20]
    bucket.pipe_file("library/cut.txt.xz", cut)
    message = r"s3://library/cut.txt.xz: cannot be read: .*damaged or cut short: copy it again"
    url = "s3://library/cut.txt.xz"
    with pytest.raises(InputError, match=message), open_decompressed(url) as (stream, _):
        stream.read()


def test_local_files_and_directories_by_file_url_appear_when_complete(tmp_path):
    with write_directory_to(f"file://{tmp_path}/one") as directory:
        write_parts(directory, "text")
    artifacts.verify(tmp_path / "one", kind="dataset")
    shutil.rmtree(tmp_path / "one")
    url = f"file://{tmp_path}/out.txt"
    with write_file_to(url) as temporary:
        temporary.write_text("all")
        assert not (tmp_path / "out.txt").exists()
    assert (tmp_path / "out.txt").read_text() == "all"
    with pytest.raises(ZeroDivisionError), write_file_to(url) as temporary:
        temporary.write_text(str(1 / 0))
    assert (tmp_path / "out.txt").read_text() == "all"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["out.txt"]


def test_missing_library_of_a_store_is_named():
    with pytest.raises(InputError, match=r"gs://bucket/x: needs the package gcsfs.*Run pip install gcsfs"):
        list_files("gs://bucket/x")
