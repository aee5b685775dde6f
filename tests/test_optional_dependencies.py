"""Messages about packages of extras that are not installed."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from cloze.errors import InputError
from cloze.optional_dependencies import require


class Installed(metadata.Distribution):
    """An installed package, with the record of where pip took it from (PEP 610)."""

    def __init__(self, url: str | None, kind: str = "dir_info", **info: bool) -> None:
        self._record = None if url is None else json.dumps({"url": url, kind: info})

    def read_text(self, filename: str) -> str | None:
        return self._record if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def message(monkeypatch: pytest.MonkeyPatch, installed: Installed) -> str:
    monkeypatch.setattr(metadata, "distribution", lambda name: installed)
    with pytest.raises(InputError) as caught:
        require(["json", "no_such_package"], extra="tasks", where="a baseline")
    return str(caught.value)


def test_the_extra_is_installed_from_the_clone_that_the_package_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    line = message(monkeypatch, Installed(clone.as_uri()))
    assert line == f"a baseline: needs the package no_such_package. Run pip install '{clone}[tasks]'."
    line = message(
        monkeypatch, Installed(clone.as_uri(), editable=True)
    )  # else pip would replace it by a copy
    assert line.endswith(f"Run pip install -e '{clone}[tasks]'.")


@pytest.mark.parametrize(
    "installed",
    [
        Installed(None),
        Installed("file:///no-longer-there"),
        Installed("https://example.org/cloze.whl", "archive_info"),
    ],
    ids=["from an index", "without the clone", "from an archive"],
)
def test_otherwise_it_is_installed_by_name(installed: Installed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert message(monkeypatch, installed).endswith("Run pip install 'cloze-bert[tasks]'.")
