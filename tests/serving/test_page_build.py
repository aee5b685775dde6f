"""The built files of the explorer page match their sources in page/, are small, and hold no markup of a text."""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cloze.reports import page
from cloze.serving.app import PAGE

SOURCES = Path(__file__).resolve().parents[2] / "page"
REPORTS = Path(page.__file__).parent
BUILT = [
    *PAGE.iterdir(),
    *(REPORTS / name for name in ("attention.js", "audit.js", "explanations.js", "report.js", "page.css")),
]
MAX_BYTES = 300_000
MAX_FIRST_BYTES = 40_000


def source_digest() -> str:
    """Return the digest that page/build.mjs writes into what it builds."""
    files = [path for folder in ("src", "static") for path in (SOURCES / folder).rglob("*") if path.is_file()]
    names = [path.relative_to(SOURCES).as_posix() for path in files]
    digest = hashlib.sha256()
    for name in sorted([*names, "build.mjs", "package-lock.json", "package.json"]):
        digest.update(f"{name}\0".encode() + (SOURCES / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def test_the_built_files_are_those_of_the_sources():
    digest = source_digest()
    for path in BUILT:
        if path.suffix in (".js", ".css") and path.name != "theme.js":
            first = path.read_text("utf-8").splitlines()[0]
            assert f"Sources: {digest}" in first, f"{path.name} is not of these sources: run make page"
    for path in (SOURCES / "static").iterdir():
        assert (PAGE / path.name).read_bytes() == path.read_bytes(), "run make page"


@pytest.mark.exhaustive  # asks the npm registry
def test_a_build_from_the_lock_file_gives_the_same_bytes(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    copy = tmp_path / "page"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    install = ["npm", "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
    installed = subprocess.run(install, cwd=copy, capture_output=True, text=True, timeout=240)
    if re.search("ENOTFOUND|ECONN|ETIMEDOUT|EAI_AGAIN|network", installed.stderr):
        pytest.skip("the npm registry does not answer")
    assert installed.returncode == 0, installed.stderr
    subprocess.run(["node", "build.mjs", tmp_path / "built"], cwd=copy, check=True, timeout=60)
    for path in BUILT:
        part = "serving/page" if path.parent == PAGE else "reports"
        assert (tmp_path / "built" / part / path.name).read_bytes() == path.read_bytes(), path.name


def test_the_page_is_small():
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in BUILT}
    assert sum(sizes.values()) <= MAX_BYTES, sizes


def test_the_first_view_is_small():
    """Views that are opened later are loaded then: only the scripts that main.js imports are of the first."""
    names = ["index.html", "style.css", "theme.js", "icon.svg", "main.js"]
    for name in names:
        names += re.findall(r'(?:from|import)"\./([\w-]+\.js)"', (PAGE / name).read_text("utf-8"))
    assert len(names) > 5, "the parts that views share are a file of their own"
    sizes = {name: len(gzip.compress((PAGE / name).read_bytes())) for name in set(names)}
    assert sum(sizes.values()) <= MAX_FIRST_BYTES, sizes


def test_the_lock_file_names_no_registry():
    lock = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))
    assert all("resolved" not in package for package in lock["packages"].values())
    # the integrity of each package, whatever registry it comes from
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_the_page_names_no_other_host_and_the_sources_write_no_markup():
    for path in BUILT:
        text = path.read_text("utf-8")
        if path.suffix != ".txt":
            assert set(re.findall(r"https?://([\w.]+)", text)) <= {"www.w3.org"}, path.name
    for path in (SOURCES / "src").rglob("*.ts*"):
        text = path.read_text("utf-8")
        for way in ("innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in text, path.name


def test_the_licenses_of_all_libraries_are_there():
    packages = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))["packages"]
    licenses = (PAGE / "licenses.txt").read_text("utf-8")
    for name in ("preact", "d3-array"):
        assert f"{name} {packages[f'node_modules/{name}']['version']}\n" in licenses
