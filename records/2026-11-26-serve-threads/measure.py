"""Throughput and latency of two versions of the server in turn, on one short text a request.

    python measure.py MODEL BEFORE/src AFTER/src -o FILE.json
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

from benchmarks.http_load import Client
from benchmarks.serve import text_of_length

TOKENS, ROUNDS, SECONDS, REQUESTS, FIRST_PORT = 32, 5, 3, 60, 18300

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("sources", nargs=2)
parser.add_argument("-o", type=Path)
arguments = parser.parse_args()
body = json.dumps({"inputs": text_of_length(arguments.model, TOKENS)})
figures, processes = {}, []


def milliseconds(url):
    took = []
    for _ in range(REQUESTS):
        start = time.perf_counter()
        urlopen(Request(url, body.encode(), {"Content-Type": "application/json"})).read()
        took.append(1000 * (time.perf_counter() - start))
    return statistics.median(took)


with tempfile.TemporaryDirectory() as folder:
    urls = {}
    for name, source in zip(("before", "after"), arguments.sources, strict=True):
        for precision in ("float32", "int8"):
            port = FIRST_PORT + len(urls)
            command = [sys.executable, "-m", "cloze", "serve", "-m", arguments.model, "--precision", precision]
            environment = {**os.environ, "PYTHONPATH": source}
            process = subprocess.Popen(
                [*command, "--port", str(port)], stderr=subprocess.PIPE, env=environment
            )
            process.stderr.readline()
            processes.append(process)
            urls[f"{name}, {precision}"] = f"http://127.0.0.1:{port}/embed"
    for number in range(1 + ROUNDS):
        for key, url in urls.items():
            rate, _ = Client(url, Path(folder)).closed_loop(body, seconds=SECONDS)
            latency = milliseconds(url)
            if number:  # the first round warms up
                of_key = figures.setdefault(key, {"requests per second": [], "one at a time, ms": []})
                of_key["requests per second"].append(round(rate, 1))
                of_key["one at a time, ms"].append(round(latency, 1))
for process in processes:
    process.terminate()
    process.wait()
text = json.dumps(figures, indent=1)
print(text)
if arguments.o:
    arguments.o.write_text(text + "\n")
