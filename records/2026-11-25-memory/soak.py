"""Resident memory of a server by requests, with texts whose lengths are those of real paragraphs.

    python soak.py NOVEL.txt.xz -o serve.json [--requests 20000] [--model cloze-mini]

The file is written again after each point, so an interrupted soak leaves the points it had.
"""

import argparse
import json
import lzma
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

parser = argparse.ArgumentParser()
parser.add_argument("novel", type=Path)
parser.add_argument("-o", "--output", type=Path, required=True)
parser.add_argument("--requests", type=int, default=20_000)
parser.add_argument("--every", type=int, default=250)
parser.add_argument("--texts", type=int, default=8, help="largest number of texts in a request")
parser.add_argument("--model", default="cloze-mini")
arguments = parser.parse_args()

with lzma.open(arguments.novel, "rt", encoding="utf-8-sig") as stream:
    paragraphs = [line.strip() for line in stream if len(line) > 80]
choose = random.Random(1)


def draw_request() -> list[str]:
    """Return texts that are paragraphs cut at random places."""
    texts = choose.sample(paragraphs, choose.randint(1, arguments.texts))
    return [text[: choose.randint(1, len(text))] for text in texts]


def resident_mebibytes(process: int) -> dict[str, float]:
    """Return the resident memory of a process, in all and without files."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    fields = {"rss": "VmRSS", "anonymous": "RssAnon", "peak": "VmHWM"}
    return {
        name: round(int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024, 2) for name, key in fields.items()
    }


server = subprocess.Popen(
    [sys.executable, "-m", "cloze", "serve", "--port", "0", "-m", arguments.model],
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "OMP_NUM_THREADS": "1"},
)
try:
    url = re.search(r"http://\S+", server.stderr.readline())[0]
    points, started = [{"requests": 0, "seconds": 0.0, **resident_mebibytes(server.pid)}], time.monotonic()
    with httpx.Client(base_url=url, timeout=600) as client, ThreadPoolExecutor(2) as pool:
        for done in range(arguments.every, arguments.requests + 1, arguments.every):
            requests = [draw_request() for _ in range(arguments.every)]
            answers = pool.map(lambda texts: client.post("/embed", json={"inputs": texts}), requests)
            assert {answer.status_code for answer in answers} == {200}
            seconds = round(time.monotonic() - started, 1)
            points.append({"requests": done, "seconds": seconds, **resident_mebibytes(server.pid)})
            arguments.output.write_text(json.dumps(points) + "\n", "ascii")
finally:
    server.kill()
    server.wait()
