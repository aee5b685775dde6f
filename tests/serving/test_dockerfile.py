"""The Dockerfile: linted, without root, with the requirements of pyproject.toml and a health check that works."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from clients import listening

from cloze.cli import main
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from helpers import find_program

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text("utf-8")
INSTRUCTIONS = [
    tuple(line.split(maxsplit=1))
    for line in re.sub(r"\\\n\s*", "", TEXT).splitlines()
    if line and not line.startswith("#")
]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def arguments_of(name: str) -> list[str]:
    return [arguments for instruction, arguments in INSTRUCTIONS if instruction == name]


def stage(name: str) -> dict[str, str]:
    """Return the last of each kind of instruction in a stage and in the one that it begins with."""
    found: dict[str, str] = {}
    starts = [i for i, (instruction, _) in enumerate(INSTRUCTIONS) if instruction == "FROM"]
    for start, end in zip(starts, [*starts[1:], len(INSTRUCTIONS)], strict=True):
        base, _, stage_name = INSTRUCTIONS[start][1].split()
        if stage_name == name:
            found = {**(stage(base) if ":" not in base else {}), **dict(INSTRUCTIONS[start + 1 : end])}
    return found


def test_hadolint_finds_nothing():
    done = subprocess.run(
        [find_program("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_only_what_is_copied_is_sent_to_the_builder():
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for arguments in arguments_of("COPY") for name in arguments.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    assert {"README.md", "LICENSE", "LICENSE.weights", ".ci/page_metadata.py"} <= copied


def test_the_requirements_are_those_of_the_project_without_torch(tmp_path):
    (build,) = (command for command in arguments_of("RUN") if "pip wheel" in command)
    command = build.split("&& ")[1].replace("/wheel/", f"{tmp_path}/")
    assert command.startswith("python -c ")
    command = command.replace("python", sys.executable, 1)
    subprocess.run(["sh", "-c", command], cwd=ROOT, check=True)
    extras = PROJECT["optional-dependencies"]
    needed = {*PROJECT["dependencies"], *extras["serve"], *extras["onnx"]}
    left_out = {name for name in needed if re.match(r"(torch|onnx|onnxscript)[<>=]", name)}
    assert len(left_out) == 3
    assert set((tmp_path / "requirements.txt").read_text().splitlines()) == needed - left_out
    (torch,) = (name for name in left_out if name.startswith("torch"))
    assert torch in re.findall(r"'(torch[^']*)'", TEXT)


@pytest.mark.parametrize("name", ["server", "graphs"])
def test_the_server_is_not_root_and_needs_a_key(name, capsys, monkeypatch):
    assert int(stage(name)["USER"]) > 0
    for variable in " ".join(arguments_of("ENV")).split():
        monkeypatch.setenv(*variable.split("="))
    program, *arguments = json.loads(stage(name)["ENTRYPOINT"])
    assert program == "cloze"
    assert main([*arguments, "--port", "0"]) == 2  # for want of the key: the other arguments are right
    assert capsys.readouterr().err.startswith("error: /run/secrets/key: No such file")


def test_the_health_check_asks_the_server(models):
    program, *arguments = json.loads(stage("server")["HEALTHCHECK"].split("CMD", 1)[1])
    assert program == "python"
    with listening(
        create_app({"bert": models["bert"]}, Limits(), api_keys=lambda: {"0123456789abcdef"})
    ) as address:
        command = [part.replace("http://127.0.0.1:8080", address) for part in arguments]
        assert subprocess.run([sys.executable, *command], check=False).returncode == 0
    stopped = subprocess.run([sys.executable, *command], check=False, capture_output=True)
    assert stopped.returncode == 1


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("target", ["server", "graphs"])
def test_the_image_builds_and_says_what_it_is(target):
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("needs a docker daemon")
    tag = f"cloze-test-{target}"
    subprocess.run(["docker", "build", "--target", target, "--tag", tag, ROOT], check=True)
    run = ["docker", "run", "--rm", "--entrypoint", "cloze", tag, "serve", "--help"]
    assert "--api-key-file" in subprocess.run(run, check=True, capture_output=True, text=True).stdout
