"""The files of docs/guides/deploy.md: nginx passes requests on, and the others have true variables and valid forms."""

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
import yaml
from server_process import ServerProcess

from cloze.cli import load_verb
from cloze.cli.parser import Command
from cloze.config import resolve
from cloze.serving.limits import Limits
from cloze.serving.server import bind
from helpers import find_program

FILES = Path(__file__).parents[2] / "docs/guides/deploy"
SERVICE, COMPOSE, KUBERNETES = (
    (FILES / name).read_text("utf-8") for name in ("cloze.service", "compose.yaml", "kubernetes.yaml")
)
DEPLOYMENT, _ = yaml.safe_load_all(KUBERNETES)
CONTAINER = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(
    ("variables", "seconds_to_stop"),
    [
        (
            dict(re.findall(r"(CLOZE_\w+)=(\S+)", " ".join(re.findall("^Environment=(.*)", SERVICE, re.M)))),
            int(re.findall(r"TimeoutStopSec=(\d+)", SERVICE)[0]),
        ),
        (
            yaml.safe_load(COMPOSE)["services"]["cloze"]["environment"],
            int(re.findall(r"stop_grace_period: (\d+)s", COMPOSE)[0]),
        ),
        (
            {each["name"]: each["value"] for each in CONTAINER["env"]},
            DEPLOYMENT["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
        ),
    ],
    ids=["systemd", "Compose", "Kubernetes"],
)
def test_variables_are_those_of_flags(variables, seconds_to_stop, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    values = Command(load_verb("serve"), "cloze serve").parse([])
    assert {f"CLOZE_{name.upper()}" for name in values} == {*variables}
    assert values["model"][0].startswith("sst2=/")
    limits = resolve(Limits, {name: value for name, value in values.items() if hasattr(Limits, name)})
    assert limits.shutdown_delay + limits.drain_seconds + 2 < seconds_to_stop


def test_systemd_finds_nothing(tmp_path):
    unit = tmp_path / "cloze.service"
    unit.write_text(SERVICE.replace("/opt/cloze/bin/cloze", "/bin/true"))
    verify = [find_program("systemd-analyze"), "verify", "--man=no", unit]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "cloze" in line]) == (0, [])


def test_compose_follows_its_schema():
    check = [
        find_program("check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        FILES / "compose.yaml",
    ]
    subprocess.run(check, check=True)


def test_kubernetes_follows_its_schema():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for resource in yaml.safe_load_all(KUBERNETES):
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
    mounted = {each["mountPath"] for each in CONTAINER["volumeMounts"]}
    assert mounted == {"/run/secrets/cloze", "/models"}


@pytest.fixture
def proxied(directories: Mapping[str, Path], tmp_path: Path) -> Iterator[tuple[ServerProcess, int]]:
    """A server, and the port of nginx in front of it."""
    nginx, openssl = find_program("nginx"), find_program("openssl")
    served = ServerProcess("-m", str(directories["bert"]), "--allowed-host", "cloze.example.org")
    with bind("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    names = {"/etc/nginx/cloze": str(tmp_path / "cloze"), "127.0.0.1:8080": f"127.0.0.1:{served.port}"}
    text = (FILES / "nginx.conf").read_text("utf-8").replace("listen 443", f"listen 127.0.0.1:{port}")
    for name, replacement in names.items():
        assert name in text
        text = text.replace(name, replacement)
    user = "user root;" if os.geteuid() == 0 else ""
    text = text.replace("events {}", f"events {{}}\n{user}\ndaemon off;\npid pid;\nerror_log stderr;")
    folders = (
        f"    {name}_temp_path {tmp_path};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        text.replace("http {", "\n".join(["http {", "    access_log off;", *folders]))
    )
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=cloze"]
    made = [tmp_path / "cloze.key", "-out", tmp_path / "cloze.pem"]
    subprocess.run([*make, "-keyout", *made], check=True, capture_output=True)
    process = subprocess.Popen([nginx, "-p", tmp_path, "-c", tmp_path / "nginx.conf"], stderr=subprocess.PIPE)
    try:
        yield served, port
    finally:
        process.terminate()
        process.communicate()
        served.end()


@pytest.mark.slow
def test_nginx_passes_requests_on(proxied):
    served, port = proxied

    async def ask() -> None:
        host = {"Host": "cloze.example.org"}
        async with httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}", verify=False, headers=host
        ) as client:
            end = time.monotonic() + 20
            while True:
                try:
                    assert (await client.get("/health")).status_code == 200
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < end
                    await asyncio.sleep(0.05)
            answers = [await client.post("/embed", json={"inputs": "a"}) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200] * 3
            assert len({answer.headers["x-request-id"] for answer in answers}) == 3
            assert answers[0].headers["content-encoding"] == "gzip"
            for size, status in ((1_999_000, 413), (3_000_000, 413), (100, 200)):
                answer = await client.post("/embed", json={"inputs": "a" * size})
                assert answer.status_code == status
            page = await client.get("/")
            assert "default-src 'self'" in page.headers["content-security-policy"]
            assert (await client.get("/info", headers={"Host": "other.example"})).status_code == 421

    asyncio.run(ask())
    served.process.terminate()
    assert served.process.wait(15) == 0
