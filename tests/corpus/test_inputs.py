"""What the user names to files."""

import json
from pathlib import Path

import pytest

from cloze.corpus.inputs import find_files
from cloze.errors import InputError


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def found(given: Path | str, below: Path) -> list[str]:
    return [str(Path(file).relative_to(below)) for file in find_files(str(given))]


def test_a_folder_is_read_by_name_hidden_files_left_out(tmp_path):
    make(tmp_path, "b.txt", "a.txt", "a/z.txt", "sub/c.txt", ".hidden", ".git/d.txt")
    assert found(tmp_path, tmp_path) == ["a/z.txt", "a.txt", "b.txt", "sub/c.txt"]


def test_globs_are_read_by_name_folders_among_them_too(tmp_path):
    make(tmp_path, "b.txt", "a.txt", "AB/wiki_01", "AA/wiki_00", "sub/c.txt")
    assert found(tmp_path / "*.txt", tmp_path) == ["a.txt", "b.txt"]
    assert found(tmp_path / "A?", tmp_path) == ["AA/wiki_00", "AB/wiki_01"]
    assert found(tmp_path / "**" / "*.txt", tmp_path) == ["a.txt", "b.txt", "sub/c.txt"]
    assert sorted(found(tmp_path / "**", tmp_path)) == [
        "AA/wiki_00",
        "AB/wiki_01",
        "a.txt",
        "b.txt",
        "sub/c.txt",
    ]


def test_a_file_whose_name_looks_like_a_glob(tmp_path):
    make(tmp_path, "a[1].txt", "a1.txt")
    assert found(tmp_path / "a[1].txt", tmp_path) == ["a[1].txt"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    make(tmp_path, "text/a.txt", "elsewhere/b.txt", "elsewhere/c.txt")
    (tmp_path / "text" / "file").symlink_to(tmp_path / "elsewhere" / "b.txt")
    (tmp_path / "text" / "folder").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "text" / "up").symlink_to(tmp_path)
    (tmp_path / "text" / "self").symlink_to(tmp_path / "text")
    names = found(tmp_path / "text", tmp_path)
    assert names[:4] == ["text/a.txt", "text/file", "text/folder/b.txt", "text/folder/c.txt"]
    assert [name for name in names if name.count("text") > 2] == []


def test_stdin_is_itself():
    assert find_files("-") == ["-"]


def saved(folder: Path, **state: object) -> None:
    make(folder, "data-1.arrow", "data-0.arrow", "cache-5.arrow")
    (folder / "dataset_info.json").write_text("{}")
    if state:
        (folder / "state.json").write_text(json.dumps(state))


def test_what_save_to_disk_wrote(tmp_path):
    files = [{"filename": "data-1.arrow"}, {"filename": "data-0.arrow"}]
    saved(tmp_path / "one", _data_files=files, _indices_data_files=None)
    assert found(tmp_path / "one", tmp_path) == ["one/data-1.arrow", "one/data-0.arrow"]
    saved(tmp_path / "cache")
    assert found(tmp_path / "cache", tmp_path) == ["cache/data-0.arrow", "cache/data-1.arrow"]


def test_splits_are_read_in_their_order_or_one_by_one(tmp_path):
    for split in ("train", "test"):
        saved(tmp_path / split, _data_files=[{"filename": "data-0.arrow"}])
    make(tmp_path, "README.md")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert found(tmp_path, tmp_path) == ["train/data-0.arrow", "test/data-0.arrow"]
    assert found(tmp_path / "test", tmp_path) == ["test/data-0.arrow"]


def test_a_state_json_alone_makes_no_data_set(tmp_path):
    make(tmp_path, "state.json", "a.txt")
    assert found(tmp_path, tmp_path) == ["a.txt", "state.json"]


def test_a_folder_where_a_file_should_be_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none/\*: no such file"):
        find_files(str(tmp_path / "none" / "*"))
