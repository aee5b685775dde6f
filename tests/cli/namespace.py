"""A program for `unshare -rnm`: run commands of cloze without a network, and print the host names they look up."""

import fcntl
import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

CONTROL = "control.cloze.example"
_SET_FLAGS, _SET_ADDRESS = 0x8914, 0x8916  # Linux's SIOCSIFFLAGS and SIOCSIFADDR
_UP_AND_RUNNING = 0x41
_NO_SUCH_NAME = b"\x81\x83"
_COMMANDS = """
import json, os, signal, socket, subprocess, sys
from contextlib import suppress
from cloze.cli import main
for command in json.load(sys.stdin):
    if command[0] == "serve":
        server = subprocess.Popen([sys.executable, "-m", "cloze", *command], stderr=subprocess.PIPE, text=True)
        assert "http://" in server.stderr.readline()
        server.terminate()
        assert server.wait() == 0
        continue
    code = main(command)
    assert code == 0, (command, code)
with suppress(OSError):
    socket.getaddrinfo(sys.argv[1], 443)
"""


def _start_loopback() -> None:
    """Bring up the loopback interface, with an address that counts as a network for the resolver."""
    with socket.socket() as control:
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
        address = socket.inet_aton("10.1.1.1")
        fcntl.ioctl(control, _SET_ADDRESS, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, address))


def _record(server: socket.socket, names: list[str]) -> None:
    while True:
        query, client = server.recvfrom(4096)
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode("ascii", "replace"))
            at += 1 + length
        names.append(".".join(labels))
        server.sendto(query[:2] + _NO_SUCH_NAME + query[4:6] + bytes(6) + query[12 : at + 5], client)


def _main(folder: Path) -> None:
    _start_loopback()
    for name, text in {
        "resolv.conf": "nameserver 127.0.0.1\n",
        "nsswitch.conf": "hosts: files dns\n",
    }.items():
        (folder / name).write_text(text)
        subprocess.run(["mount", "--bind", folder / name, f"/etc/{name}"], check=True)
    names: list[str] = []
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))
        threading.Thread(target=_record, args=(server, names), daemon=True).start()
        commands = [sys.executable, "-c", _COMMANDS, CONTROL]
        done = subprocess.run(commands, stdin=sys.stdin, stdout=subprocess.DEVNULL, check=False)
        print(json.dumps({"code": done.returncode, "names": sorted(set(names))}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
