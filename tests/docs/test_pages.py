"""The commands and examples of the site and the README run, and mypy accepts the Python examples."""

import re
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "docs" / "extensions"))

from declared import NOT_RUN, PAGES, shortening_flags  # noqa: E402
from generated import fill_in, pages  # noqa: E402
from running import Runner, TolerantOutputChecker, blocks, texts  # noqa: E402

FIXTURES = ("minilm", "google_bert", "old_model", "shared")
DOCS = REPOSITORY / "docs"
PATHS = [REPOSITORY / "README.md", *pages()]
RUN = [
    pytest.param(
        name, page, marks=pytest.mark.exhaustive if page.is_exhaustive else pytest.mark.slow, id=name
    )
    for name, page in PAGES.items()
]


def read(name: str) -> str:
    """Return a page; recipes contain commands, so generated ones are filled in."""
    text = (REPOSITORY / name).read_text("utf-8")
    return fill_in(text) if "generated: recipes" in text else text


@pytest.mark.parametrize(("name", "page"), RUN)
def test_commands_and_examples_run(name, page, stock, tmp_path, monkeypatch, request):
    markdown = read(name)
    monkeypatch.chdir(tmp_path)
    runner = Runner(page, shortening_flags, NOT_RUN)
    inputs = {word.partition("=")[0]: word.rpartition("=")[2] for word in page.inputs.split()}
    for input_name, source in inputs.items():
        if source.startswith("text:"):
            Path(input_name).write_text(texts(markdown)[int(source[5:])], "utf-8")
        else:
            first, _, rest = source.partition("/")
            path = request.getfixturevalue(first) if first in FIXTURES else stock[first]
            Path(input_name).symlink_to(path / rest if rest else path)
            runner.define(**({input_name: input_name} if input_name == "MODEL" else {}))
    page_blocks = list(blocks(markdown))
    assert page_blocks
    for block in page_blocks:
        runner.run(block)
    assert runner.used == {*page.replaced}
    code = " ".join([*(block.code for block in page_blocks), *page.replaced.values()])
    assert [input_name for input_name in inputs if input_name not in code] == []


def test_every_part_that_is_not_run_is_on_a_page():
    code = "\n".join(block.code for name in PAGES for block in blocks(read(name)))
    assert [part for part in NOT_RUN if part not in code] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_page_with_commands_is_declared(path):
    name = str(path.relative_to(REPOSITORY))
    markdown = read(name)
    assert not re.findall(r"^ {4,}(?:\$ )?cloze \w.*$", markdown, re.MULTILINE), (
        "write commands in blocks of sh"
    )
    assert (name in PAGES) == bool(list(blocks(markdown)))


@pytest.mark.parametrize(
    ("tolerance", "printed", "is_accepted"),
    [
        (0.01, "loss 2.005 of 12 words\n", True),
        (0.01, "loss   1.99 of 12 words\n", True),
        (0.01, "loss 2.03 of 12 words\n", False),
        (0.01, "loss 2.0 of 12 tokens\n", False),
        (0.0, "loss 2.00 of 12 words\n", True),
        (0.0, "loss 2.0 of 12 words\n", False),
    ],
)
def test_only_numbers_may_differ_within_the_tolerance(tolerance, printed, is_accepted):
    checker = TolerantOutputChecker(tolerance)
    assert checker.check_output("loss 2.00 of 12 words\n", printed, 0) is is_accepted


NOT_CHECKED = [
    "onnxruntime",
    "transformers",
    "sentence_transformers",
    "sklearn",
    "pandas",
    "datasets",
    "openai",
]


@pytest.mark.exhaustive
def test_python_examples_are_typed(tmp_path, capfd):
    api = pytest.importorskip("mypy.api")
    files = []
    folders = (REPOSITORY, DOCS, DOCS / "guides", DOCS / "reference")
    for page in (path for path in PATHS if path.parent in folders):
        code = [
            b.code for b in blocks(page.read_text("utf-8")) if b.language == "python" and ">>>" not in b.code
        ]
        if code:
            name = "_".join(page.relative_to(REPOSITORY).with_suffix("").parts).replace("-", "_")
            files.append(tmp_path / f"{name}.py")
            files[-1].write_text("\n".join(code), "utf-8")
    assert len(files) > 4
    settings = "[mypy]\nmypy_path = " + str(REPOSITORY / "src") + "\nignore_missing_imports = True\n"
    settings += "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in NOT_CHECKED)
    (tmp_path / "mypy.ini").write_text(settings + "[mypy-cloze.*]\nignore_errors = True\n")
    flags = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path / "cache")]
    out, err, status = api.run([*flags, "--python-executable", sys.executable, *map(str, files)])
    assert status == 0, out + err
