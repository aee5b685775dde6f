"""The package as a whole: its names, imports, examples in docstrings, and the packages that it needs."""

import doctest
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cloze


def test_public_names_exist_and_have_docstrings():
    assert [name for name in cloze.__all__ if not getattr(cloze, name).__doc__] == []


COMMAND = "from cloze.cli import main; assert main({!r}) == 0"


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        (COMMAND.format(["--help"]), []),
        (COMMAND.format(["--version"]), []),
        (COMMAND.format(["fill", "--help"]), ["cyclopts", "rich"]),
        (COMMAND.format(["tasks"]), ["cyclopts", "numpy", "tokenizers", "cloze.data.reading.source"]),
        ("import cloze; cloze.FillMask, cloze.Embedder", ["numpy", "tokenizers"]),
    ],
)
def test_a_start_imports_only_the_large_packages_that_it_needs(program, needed):
    large = ["torch", "pyarrow", "numpy", "tokenizers", "cyclopts", "rich", "cloze.data.reading.source"]
    others = [name for name in large if name not in needed]
    program += f"; import sys; print('heavy', *(name for name in {others} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy"


def test_the_result_of_a_build_is_a_table_in_a_notebook():
    assert "<th>documents</th><td>3</td>" in cloze.BuildSummary(documents=3)._repr_html_()


REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = (
    Path(cloze.__file__).parent,
    REPOSITORY / "research/benchmarks",
    REPOSITORY / "research/experiments",
)
WITH_EXAMPLES = [
    path.relative_to(package.parent)
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if "\n    >>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples(path):
    name = ".".join(path.with_suffix("").parts)
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted > 0 or "+SKIP" in inspect.getsource(module)
    assert result.failed == 0


BLOCKED = ("google_crc32c", "matplotlib", "scipy", "sklearn", "transformers")
RUN_VERBS = f"""
import sys
import tomllib
sys.modules |= dict.fromkeys({BLOCKED!r})  # an import of one fails
from cloze.cli import main
for verb in sys.argv[1:]:
    assert main(verb.split()) == 0, verb
"""


@pytest.mark.slow
def test_a_data_set_is_built_and_audited_with_the_core_alone(tmp_path):
    (tmp_path / "text.txt").write_text("The sun rose. The birds began to sing.\n\nA cat slept.\n" * 10)
    verbs = [
        "corpus text.txt --vocabulary cloze-mini -o data --workers 1",
        "corpus audit data -o audit.html",
        "import cloze-mini -o model",
        "attention -m cloze-mini Birds -o attention.html",
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN_VERBS, *verbs],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Tokens per sentence" in (tmp_path / "audit.html").read_text("utf-8")
