# ruff: noqa
"""Time of POST /search and of a second cloze search, by the number of passages: random vectors under the name of a document's content."""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np

import cloze
from cloze.inference.embedder import Embedder
from cloze.inference.embedding_files import write_vector_table

PY = f"{Path(sys.executable).parent}/"
work = Path("timing")
work.mkdir(exist_ok=True)
model = sys.argv[1]
e = Embedder.load(model, device="cpu")
rng = np.random.default_rng(1)
for count in map(int, sys.argv[2:]):
    folder = work / str(count)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lines = [f"Passage {i} of a folder." for i in range(count)]
    (folder / "small.txt").write_text("A small document.\n")
    cloze.PassageIndex.open(e, folder)
    [stored] = folder.glob(".cloze-search/*/*")
    (folder / "small.txt").unlink()
    text = "\n\n".join(lines) + "\n"
    (folder / "large.txt").write_text(text)
    vectors = rng.standard_normal((count, e.width), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    target = stored.with_name(hashlib.sha256(text.encode()).hexdigest() + ".parquet")
    write_vector_table(
        [({"line": [1 + 2 * i for i in range(count)], "text": lines}, vectors)],
        target,
        ".parquet",
        "texts",
        e.width,
    )
    wall = []
    cpu = []
    for _ in range(5):
        before = os.times()
        t = time.perf_counter()
        subprocess.run(
            [
                PY + "cloze",
                "search",
                str(folder),
                "Which trees grow by the river?",
                "-m",
                model,
                "--json",
                "--quiet",
            ],
            check=True,
            capture_output=True,
        )
        wall.append(time.perf_counter() - t)
        after = os.times()
        cpu.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    server = subprocess.Popen(
        [PY + "cloze", "serve", "-m", model, "--search", str(folder), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in server.stderr:
        if "http://" in line:
            address = line.split()[-1].strip()
            break

    def ask(i):
        body = json.dumps({"query": f"Which trees grow by the river number {i}?"}).encode()
        t = time.perf_counter()
        urllib.request.urlopen(
            urllib.request.Request(
                address.rstrip("/") + "/search", body, {"Content-Type": "application/json"}
            )
        ).read()
        return time.perf_counter() - t

    for i in range(5):
        ask(i)

    def stat():
        return sum(
            map(int, open(f"/proc/{server.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])
        ) / os.sysconf("SC_CLK_TCK")

    c0 = stat()
    times = [ask(i) for i in range(60)]
    c = (stat() - c0) / 60
    server.terminate()
    server.wait()
    q = np.quantile(times, [0.1, 0.5, 0.9]) * 1000
    shutil.rmtree(folder)
