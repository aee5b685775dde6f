"""Time cloze with several settings of OpenMP, idle and beside busy processes, in turn.

python measure.py --model MODEL --settings default,GOMP_SPINCOUNT=1000 --work one:float32,epoch --busy 0,2

Each setting has a process of its own, which waits while another computes. A line of the output has the median over the rounds,
in brackets least and most; a turn of single texts is the median of its texts.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from cloze.process import THREAD_VARIABLES, configure_memory

TABLE = Path(__file__).resolve().parents[2] / "examples" / "authors.csv"
TOKENS = 32


def compute(model: str) -> None:
    """Answer each line of stdin, a piece of work, with its seconds."""
    import cloze

    configure_memory()  # as the commands do
    texts = [row["text"] for row in csv.DictReader(TABLE.open())]
    loaded = {}
    for line in sys.stdin:
        kind, _, precision = line.strip().partition(":")
        if kind == "epoch":
            with tempfile.TemporaryDirectory() as directory:
                started = time.perf_counter()
                cloze.finetune(
                    "classification", model="cloze-mini", train=TABLE, label_column="author", learning_rate=1e-4,
                    output=f"{directory}/run", epochs=1,
                )  # fmt: skip
                seconds = time.perf_counter() - started
        else:
            if precision not in loaded:
                embedder = cloze.Embedder.load(model, precision=precision)
                short = [shorten(text, embedder) for text in texts]
                loaded[precision] = embedder, [text for text in short if text]
            embedder, short = loaded[precision]
            if kind == "embed":
                seconds = timed(embedder, texts[:300])
            else:
                end, turns = time.perf_counter() + 1, []
                while time.perf_counter() < end:
                    turns.append(timed(embedder, [short[len(turns) % len(short)]]))
                seconds = median(turns)
        print(json.dumps(seconds), flush=True)


def shorten(text: str, embedder) -> str | None:
    """Return the beginning of a text that has 32 tokens, if there is one."""
    words = text.split()
    starts = (" ".join(words[:number]) for number in range(12, TOKENS))
    return next((start for start in starts if len(embedder.tokenizer.encode(start)) == TOKENS), None)


def timed(embedder, texts: list[str]) -> float:
    """Return the seconds that the vectors of texts take."""
    started = time.perf_counter()
    embedder(texts)
    return time.perf_counter() - started


def start(model: str, setting: str, cgroup: Path | None) -> subprocess.Popen:
    """Start a process with a setting, in a control group."""
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    if setting != "default":
        environment |= dict(part.split("=") for part in setting.split("+"))

    def enter() -> None:
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    command = [sys.executable, __file__, "--model", model, "--compute"]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment, preexec_fn=enter)


def ask(process: subprocess.Popen, work: str) -> float:
    """Let a process compute, and return the seconds."""
    process.stdin.write(f"{work}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    """Print a line for each work, number of busy processes and setting."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--compute", action="store_true")
    parser.add_argument("--settings", default="default,GOMP_SPINCOUNT=1000")
    parser.add_argument("--work", default="one:float32,one:int8,embed:float32,embed:int8,epoch")
    parser.add_argument("--busy", default="0,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cgroup", type=Path)
    flags = parser.parse_args()
    if flags.compute:
        compute(flags.model)
        return
    settings, works = flags.settings.split(","), flags.work.split(",")
    loads = [*map(int, flags.busy.split(","))]
    processes = {setting: start(flags.model, setting, flags.cgroup) for setting in settings}
    for work in works:
        for process in processes.values():
            ask(process, work)  # does not count
    seconds: dict[tuple[str, int, str], list[float]] = {}
    for number in range(flags.rounds):
        for load in loads:
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
            for work in works:
                for setting in settings if number % 2 else reversed(settings):
                    time.sleep(0.1)
                    taken = ask(processes[setting], work)
                    seconds.setdefault((work, load, setting), []).append(taken)
            for process in busy:
                process.kill()
    for (work, load, setting), taken in sorted(seconds.items()):
        unit, scale = ("ms", 1e3) if work.startswith("one") else ("s", 1)
        numbers = [scale * value for value in (median(taken), min(taken), max(taken))]
        ratios = sorted(a / b for a, b in zip(taken, seconds[work, load, settings[0]], strict=True))
        print(
            f"{work:14} beside {load} {setting:28} {numbers[0]:7.2f} {unit} ({numbers[1]:.2f} to {numbers[2]:.2f})"
            f"  of {settings[0]}: {median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        )
    for process in processes.values():
        process.kill()


if __name__ == "__main__":
    main()
