"""cloze without what only Linux has: the files, calls and modules that macOS and Windows lack are hidden."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from helpers import novel_paragraphs

REPOSITORY = Path(__file__).parents[1]
REFUSED = re.compile(
    r"(?:^|/)(?:con|prn|aux|nul|com\d|lpt\d)(?:[./]|$)|[<>:\"|?*\\]|[. ](?:/|$)", re.IGNORECASE
)
PROGRAM = """
import asyncio, ctypes, importlib, io, multiprocessing, os, pathlib, shutil, signal, sys, tempfile
from concurrent.futures import ProcessPoolExecutor
import filelock, huggingface_hub, jinja2, numpy, pyarrow.dataset, pyarrow.parquet, rich.console, safetensors.torch
import sentencex, tokenizers, torch, torch._dynamo
import cyclopts

system = sys.argv.pop(1)
sys.platform = system
for name in ("sched_getaffinity", "sched_setaffinity", "posix_fadvise"):
    if hasattr(os, name):
        delattr(os, name)
ctypes.CDLL = None  # renameat2
is_file = pathlib.Path.exists
pathlib.Path.exists = lambda self, **words: not str(self).startswith(("/proc", "/sys")) and is_file(self, **words)
if system == "win32":
    del os.register_at_fork, signal.SIGHUP
    sys.modules["fcntl"] = sys.modules["resource"] = None

    def refuse(*arguments, **words):
        error = OSError(22, "A required privilege is not held by the client")
        error.winerror = 1314
        raise error

    os.symlink = pathlib.Path.symlink_to = refuse
    shutil._use_fd_functions = False
    opened = os.open

    def open_file(path, *arguments, **words):
        if isinstance(path, (str, pathlib.Path)) and os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **words)

    os.open = open_file
from cloze.cli import main

for line in pathlib.Path(sys.argv[1]).read_text("utf-8").splitlines():
    print("$", line, flush=True)
    if code := main(line.split()):
        sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_the_whole_life_of_a_model(system, tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join(novel_paragraphs(300)), "utf-8")
    rows = "".join(f"{('good', 'bad')[i % 2]} film {i}\t{('yes', 'no')[i % 2]}\n" for i in range(40))
    (tmp_path / "rows.tsv").write_bytes(f"text\tlabel\n{rows}".replace("\n", "\r\n").encode())
    nano = "--set model.hidden_size=16 --set model.num_hidden_layers=1 --set model.num_attention_heads=2"
    lines = [
        "vocab text.txt --size 400 --workers 1 -o vocab",
        "corpus text.txt --vocabulary vocab --workers 1 -o data",
        "corpus text.txt --vocabulary vocab --workers 1 -o data --overwrite",
        f"pretrain --data data -o run --steps 2 {nano} --set model.intermediate_size=32",
        f"pretrain --data data -o run --steps 2 {nano} --set model.intermediate_size=32 --resume",
        "finetune classification -m run -d rows.tsv -o tuned --epochs 1",
        "evaluate -m tuned -d rows.tsv",
        "predict -m tuned rows.tsv -o answers.csv",
        "embed -m run rows.tsv -o vectors.npy",
        "fill -m cloze-mini \u4f60\u597d[MASK]",
        "info run",
        "report run",
    ]
    (tmp_path / "lines").write_text("\n".join(lines), "utf-8")
    environment = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, system, "lines"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="cp1252",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\\u4f60" in done.stdout  # cp1252 has no Chinese
    assert (tmp_path / "answers.csv").read_text("utf-8").count("\n") == 41
    written = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    assert not [name for name in written if ".writing-" in name]
    assert names_that_windows_refuses(written) == []


def names_that_windows_refuses(names: Sequence[str]) -> list[str]:
    """Return paths with a part that Windows reserves or forbids, or that differ from others only in case."""
    alike = Counter(name.casefold() for name in names)
    return [name for name in names if alike[name.casefold()] > 1 or REFUSED.search(name)]


def test_a_clone_fits_on_windows():
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, encoding="utf-8")
    names = listed.stdout.strip("\0").split("\0")
    assert len(names) > 500
    assert names_that_windows_refuses(names) == []
    assert max(map(len, names)) < 150  # of 260 with the path of the clone
    refused = ["a/con.txt", "Aux", "a/b?.txt", "c./d", "e:f", "G", "g"]
    assert names_that_windows_refuses([*refused, "console.txt", "a/.ci"]) == refused


@pytest.mark.exhaustive
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_types_hold(system, tmp_path):
    api = pytest.importorskip("mypy.api")
    settings = ["--config-file", str(REPOSITORY / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    out, err, status = api.run([*settings, "--platform", system, str(REPOSITORY / "src")])
    assert status == 0, out + err
