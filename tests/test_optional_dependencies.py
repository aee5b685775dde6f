"""Messages about packages of extras that are not installed."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from cloze.errors import InputError
from cloze.optional_dependencies import require


class Installed(metadata.Distribution):
    """An installed package, with the record of where pip took it from (PEP 610)."""

    def __init__(self, url: str | None, kind: str, **info: bool) -> None:
        self._record = None if url is None else json.dumps({"url": url, kind: info})

    def read_text(self, filename: str) -> str | None:
        return self._record if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("url", "kind", "info", "command"),
    [
        ("{clone}", "dir_info", {}, "pip install '{folder}[tasks]'"),
        (
            "{clone}",
            "dir_info",
            {"editable": True},
            "pip install -e '{folder}[tasks]'",
        ),  # not replaced by a copy
        (None, "", {}, "pip install 'cloze-bert[tasks]'"),  # from an index
        ("file:///no-longer-there", "dir_info", {}, "pip install 'cloze-bert[tasks]'"),
        ("https://example.org/cloze.whl", "archive_info", {}, "pip install 'cloze-bert[tasks]'"),
    ],
)
def test_the_extra_is_installed_from_the_clone_that_the_package_is_from_else_by_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str | None,
    kind: str,
    info: dict[str, bool],
    command: str,
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    installed = Installed(url and url.format(clone=clone.as_uri()), kind, **info)
    monkeypatch.setattr(metadata, "distribution", lambda name: installed)
    with pytest.raises(InputError) as caught:
        require(["json", "no_such_package"], extra="tasks", where="a baseline")
    line = f"a baseline: needs the package no_such_package. Run {command.format(folder=clone)}."
    assert str(caught.value) == line
