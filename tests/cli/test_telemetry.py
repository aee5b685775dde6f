"""No verb and no package that cloze imports looks up another machine or leaves files; `fill` imports no compiler."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import namespace
import pytest
from samples import USES, fill_in

from cloze.optional_dependencies import TELEMETRY_SWITCHES

SCRIPT = Path(namespace.__file__)
UNSHARE = ["unshare", "--map-root-user", "--net", "--mount"]
CI_VARIABLES = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "PYTEST_CURRENT_TEST")
"""Packages keep quiet where one of them is set."""


def look_ups(commands: Sequence[str], tmp_path: Path, home: Path) -> list[str]:
    """Run commands without network interfaces, as a user without CI; return the names looked up."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("needs Linux and unshare")
    if subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("the system permits no network namespace")
    home.mkdir()
    silencing = {*CI_VARIABLES, *(name for switches in TELEMETRY_SWITCHES.values() for name in switches)}
    environment = {name: value for name, value in os.environ.items() if name not in silencing}
    environment |= {"HOME": str(home)}
    for name in ("HF_HUB_OFFLINE", "XDG_CACHE_HOME", "HF_HOME"):
        environment.pop(name, None)
    done = subprocess.run(
        [*UNSHARE, sys.executable, str(SCRIPT), str(tmp_path)],
        input=json.dumps([shlex.split(command) for command in commands]),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["code"] == 0, done.stderr
    names: list[str] = result["names"]
    assert namespace.CONTROL in names, "look-ups are not recorded"
    return [name for name in names if not name.startswith(namespace.CONTROL)]


@pytest.mark.slow
def test_an_export_does_not_report_home(paths, tmp_path):
    pytest.importorskip("onnxruntime")
    assert look_ups([fill_in(USES["export"], paths)], tmp_path, tmp_path / "home") == []
    assert list((tmp_path / "home").rglob("*")) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_no_verb_looks_up_another_machine(paths, tmp_path):
    commands = [fill_in(command, paths) for command in USES.values()]
    assert look_ups(commands, tmp_path, tmp_path / "home") == []
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


IMPORT = """
import os, sys
from cloze.optional_dependencies import TELEMETRY_SWITCHES, import_package
import_package(sys.argv[1])
assert all(os.environ[name] == value for name, value in TELEMETRY_SWITCHES[sys.argv[1]].items())
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("package", TELEMETRY_SWITCHES)
def test_an_import_leaves_no_files(package, tmp_path):
    if find_spec(package) is None:
        pytest.skip(f"needs {package}")
    names = {*CI_VARIABLES, "XDG_CACHE_HOME", "HF_HOME", *TELEMETRY_SWITCHES[package]}
    environment = {name: value for name, value in os.environ.items() if name not in names}
    subprocess.run(
        [sys.executable, "-c", IMPORT, package], env=environment | {"HOME": str(tmp_path)}, check=True
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


FILL = """
import sys
from cloze.cli import main
assert main(["fill", "-m", sys.argv[1], "The [MASK] of the house.", "--device", "cpu", "--quiet"]) == 0
heavy = {"torch._dynamo", "sympy", "rich", "pyarrow", "huggingface_hub", "onnxruntime", "cloze.data.reading.source"}
print(*(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.slow
def test_fill_does_not_import_the_compiler_of_torch_or_readers_of_data(paths):
    arguments = [sys.executable, "-c", FILL, str(paths["checkpoint"])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "[MASK] 1:" in done.stdout
    assert done.stderr.strip() == ""  # the import takes longer than all others except torch's
