"""The metadata of the package, and the page that PyPI makes of the README."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture
def metadata(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    pytest.importorskip("hatchling")
    path = REPOSITORY / ".ci/page_metadata.py"
    spec = importlib.util.spec_from_file_location("page_metadata", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    monkeypatch.setenv("CLOZE_REPOSITORY", "https://github.com/OWNER/NAME")
    found: dict[str, Any] = {"version": "1.2.3"}
    module.PageMetadata(str(REPOSITORY), {}).update(found)
    return found


def test_all_links_of_the_page_are_absolute_and_lead_to_files_of_the_version(metadata):
    text = metadata["readme"]["text"]
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert all(link.startswith("https://") for link in links)
    ours = [link for link in links if "OWNER" in link]
    assert len(ours) > 10
    for link in ours:
        kind, version, path = link.removeprefix("https://github.com/OWNER/NAME/").split("/", 2)
        assert (kind, version) == ("raw" if path.endswith(".png") else "blob", "v1.2.3")
        assert (REPOSITORY / path).exists()
    assert metadata["urls"]["Documentation"] == "https://OWNER.github.io/NAME/"


def test_a_version_is_written_once_for_each_reader():
    assert f"version: {PROJECT['version']}\n" in (REPOSITORY / "CITATION.cff").read_text("utf-8")
    assert re.search(rf"^## {PROJECT['version']} ", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert all((REPOSITORY / name).is_file() for name in PROJECT["license-files"])


def test_the_installation_page_lists_all_extras():
    page = (REPOSITORY / "docs/install.md").read_text("utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in page


def test_actions_of_workflows_are_pinned_by_commit():
    for path in (REPOSITORY / ".github/workflows").iterdir():
        for action in re.findall(r"uses: (.*)", path.read_text("utf-8")):
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action)


@pytest.mark.slow
def test_wheel_and_source_archive_are_the_same_and_work_outside_of_the_checkout(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "-d", tmp_path]
    subprocess.run([*build, "-t", "wheel", "-t", "sdist"], cwd=REPOSITORY, check=True, capture_output=True)
    (archive,), (wheel,) = tmp_path.glob("*.tar.gz"), tmp_path.glob("*.whl")
    assert wheel.stat().st_size < 26_000_000
    first = wheel.read_bytes()
    shutil.unpack_archive(archive, tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    subprocess.run([*build, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    assert wheel.read_bytes() == first
    (empty := tmp_path / "empty").mkdir()
    shutil.unpack_archive(wheel, installed := tmp_path / "installed", "zip")
    environment = os.environ | {"PYTHONPATH": str(installed)}
    program = (
        "import cloze, sys; from cloze.cli import main; print(cloze.__file__); sys.exit(main(sys.argv[1:]))"
    )
    for command in (["examples"], ["fill", "-m", "cloze-mini", "She closed the [MASK] behind her."]):
        done = subprocess.run(
            [sys.executable, "-c", program, *command],
            cwd=empty,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.startswith(str(installed))
    assert "door 0.46" in done.stdout
    assert {path.name for path in (empty / "examples").glob("*.csv")} == {"authors.csv", "other-books.csv"}


@pytest.mark.exhaustive
def test_a_release_is_built_and_tried_as_its_users_do(tmp_path):
    subprocess.run([REPOSITORY / ".ci/release", tmp_path / "dist"], check=True)
    assert {path.suffix for path in (tmp_path / "dist").iterdir()} == {".whl", ".gz", ".md"}
