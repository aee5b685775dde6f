"""Find and run the commands and examples of a page."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import benchmarks.__main__
import experiments.__main__
from cloze.cli import main, split_verb

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = {"benchmarks": benchmarks.__main__.main, "experiments": experiments.__main__.main}
_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL_SYNTAX = re.compile(r"[|><$*]|^(?!cloze |python -m (?:benchmarks|experiments))")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_FLAGS_THAT_CONTINUE = {"--resume", "--append", "--task"}


@dataclass(frozen=True)
class Page:
    """How to run a page; a test checks that every entry is used."""

    inputs: str = ""
    """Names on the page, each with =SOURCE if that has another name: an entry of the stock, a fixture, or text:N, the
    N-th text block."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Parts of commands and examples that would take too long, and their replacements."""
    is_exhaustive: bool = False
    tolerance: float = 0.0
    """Allowed difference of numbers with a decimal point, relative above 1: training differs between processors."""


@dataclass(frozen=True)
class Block:
    """A shell command or a Python example of a page."""

    language: str
    code: str


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the commands, one at a time, and the examples of a page in order."""
    for fence in _FENCE.finditer(markdown):
        if fence["language"] == "sh":
            for line in fence["body"].replace("\\\n", " ").splitlines():
                command = re.sub(r"(?:^| +)# .*$", "", line).strip()
                if command:
                    yield Block("sh", " ".join(command.split()) if '"' not in command else command)
        elif fence["language"] in ("python", "pycon"):
            yield Block("python", fence["body"])


def texts(markdown: str) -> list[str]:
    """Return the text blocks of a page."""
    return [fence["body"] for fence in _FENCE.finditer(markdown) if fence["language"] == "text"]


class TolerantOutputChecker(doctest.OutputChecker):
    """Accept other white space and, within a tolerance, other numbers; with tolerance 0 only equal output."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags) or not self._tolerance:
            return super().check_output(want, got, optionflags)
        expected, actual = (list(map(float, _NUMBER.findall(text))) for text in (want, got))
        words_agree = super().check_output(
            *(" ".join(_NUMBER.sub("0.0", text).split()) for text in (want, got)), optionflags
        )
        return words_agree and all(
            abs(one - other) <= self._tolerance * max(1.0, abs(one))
            for one, other in zip(expected, actual, strict=True)
        )


class Runner:
    """Run the blocks of a page in the current directory."""

    def __init__(
        self, page: Page, shortening_flags: Callable[[str, list[str]], list[str]], not_run: Iterable[str]
    ) -> None:
        self._page = page
        self._not_run = tuple(not_run)
        self._shortening_flags = shortening_flags
        self._namespace: dict[str, object] = {"__name__": "page"}
        self._outputs: set[str] = set()
        self.used: set[str] = set()

    def run(self, block: Block) -> None:
        """Run a block, unless it has a part that is not run and none that is replaced; a failure raises."""
        code = block.code
        for part, replacement in self._page.replaced.items():
            if part in code:
                self.used.add(part)
                code = code.replace(part, replacement)
        if code == block.code and any(part in code for part in self._not_run):
            return
        if block.language == "sh":
            self._run_command(code)
        elif code.lstrip().startswith(">>>"):
            self._run_doctest(code)
        else:
            exec(compile(code, "the page", "exec"), self._namespace)

    def define(self, **names: object) -> None:
        """Define names that the page uses without defining them."""
        self._namespace.update(names)

    def _run_command(self, command: str) -> None:
        if _SHELL_SYNTAX.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command)):
            paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                capture_output=True,
                text=True,
                env=os.environ | {"PATH": paths, "PYTHONPATH": str(REPOSITORY)},
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            return
        words = shlex.split(command)
        if words[0] == "cloze":
            verb, arguments = split_verb(words[1:])
            assert verb, command
            run: Callable[[list[str]], int] = main
            first = verb.split()
        else:  # python -m benchmarks or experiments
            verb, arguments, run, first = words[2], words[3:], PROGRAMS[words[2]], []
        self._remove_earlier_output(arguments)
        flags = self._shortening_flags(verb, arguments)
        assert run([*first, *arguments, *flags, "--quiet"]) == 0, command

    def _remove_earlier_output(self, arguments: list[str]) -> None:
        """Remove the output that an earlier command of the page wrote to the same path."""
        if "-o" not in arguments or _FLAGS_THAT_CONTINUE & set(arguments):
            return
        output = arguments[arguments.index("-o") + 1]
        if output in self._outputs:
            path = Path(output)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self._outputs.add(output)

    def _run_doctest(self, code: str) -> None:
        test = doctest.DocTestParser().get_doctest(code, self._namespace, "the page", None, None)
        report: list[str] = []
        runner = doctest.DocTestRunner(TolerantOutputChecker(self._page.tolerance), verbose=False)
        results = runner.run(test, out=report.append, clear_globs=False)
        assert results.failed == 0, "".join(report)
        assert results.attempted
        self._namespace.update(test.globs)
