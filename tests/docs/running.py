"""How the commands and examples of a page are found and run."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cloze.cli import main, split_verb

_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL_SYNTAX = re.compile(r"[|><$*]|^(?!cloze )")
_NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_GOES_ON = {"--resume", "--append", "--task"}


@dataclass(frozen=True)
class Page:
    """What has to be known to run a page; every entry must be of use, and a test sees to it."""

    inputs: Mapping[str, str] = field(default_factory=dict)
    """Names on the page, and what they stand for: a thing of the stock, or the number of a block of text."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Words of commands and examples that would take too long, and what is run in their place."""
    not_run: Mapping[str, str] = field(default_factory=dict)
    """The beginning of a command or an example that is not run, and why."""
    is_long: bool = False
    tolerance: float = 0.0
    """How far a number with a decimal point may be from the one on the page: what is trained ends elsewhere on another
    processor. Of numbers larger than 1 it is a share of them."""


@dataclass(frozen=True)
class Block:
    """Something on a page that can be run: a shell command, or an example in Python."""

    language: str
    code: str


def blocks(markdown: str) -> Iterator[Block]:
    """Yield the commands, one at a time, and the examples of a page in their order."""
    for found in _FENCE.finditer(markdown):
        if found["language"] == "sh":
            for line in found["body"].replace("\\\n", " ").splitlines():
                command = re.sub(r"(?:^| +)# .*$", "", line).strip()
                if command:
                    yield Block("sh", " ".join(command.split()) if '"' not in command else command)
        elif found["language"] in ("python", "pycon"):
            yield Block("python", found["body"])


def texts(markdown: str) -> list[str]:
    """Return the blocks of plain text of a page."""
    return [found["body"] for found in _FENCE.finditer(markdown) if found["language"] == "text"]


class NearlyAsPrinted(doctest.OutputChecker):
    """Takes what is as printed; and, with a tolerance, the same words with other spaces and numbers nearly the same."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags) or not self._tolerance:
            return super().check_output(want, got, optionflags)
        wanted, found = (list(map(float, _NUMBER.findall(text))) for text in (want, got))
        words_agree = super().check_output(
            *(" ".join(_NUMBER.sub("0.0", text).split()) for text in (want, got)), optionflags
        )
        return words_agree and all(
            abs(one - other) <= self._tolerance * max(1.0, abs(one))
            for one, other in zip(wanted, found, strict=True)
        )


class Runner:
    """Runs the blocks of one page, one after the other, in the current directory."""

    def __init__(self, page: Page, smaller: Callable[[str, list[str]], list[str]]) -> None:
        self._page = page
        self._smaller = smaller
        self._namespace: dict[str, object] = {"__name__": "page"}
        self._made: set[str] = set()
        self.used: set[str] = set()

    def run(self, block: Block) -> None:
        """Run a block, or leave it out with its reason; whatever fails raises."""
        code = block.code
        for beginning in self._page.not_run:
            if code.startswith(beginning):
                self.used.add(beginning)
                return
        for words, others in self._page.replaced.items():
            if words in code:
                self.used.add(words)
                code = code.replace(words, others)
        if block.language == "sh":
            self._run_command(code)
        elif code.lstrip().startswith(">>>"):
            self._run_examples(code)
        else:
            exec(compile(code, "the page", "exec"), self._namespace)

    def _run_command(self, command: str) -> None:
        if _SHELL_SYNTAX.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command)):
            paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                capture_output=True,
                text=True,
                env=os.environ | {"PATH": paths},
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
            return
        verb, arguments = split_verb(shlex.split(command)[1:])
        assert verb, command
        self._make_room(arguments)
        assert main([*verb.split(), *arguments, *self._smaller(verb, arguments), "--quiet"]) == 0, command

    def _make_room(self, arguments: list[str]) -> None:
        """Take away what an earlier command of the page has made and this one makes once more."""
        if "-o" not in arguments or _GOES_ON & set(arguments):
            return
        target = arguments[arguments.index("-o") + 1]
        if target in self._made:
            path = Path(target)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self._made.add(target)

    def _run_examples(self, code: str) -> None:
        test = doctest.DocTestParser().get_doctest(code, self._namespace, "the page", None, None)
        told: list[str] = []
        runner = doctest.DocTestRunner(NearlyAsPrinted(self._page.tolerance), verbose=False)
        results = runner.run(test, out=told.append, clear_globs=False)
        assert results.failed == 0, "".join(told)
        assert results.attempted
        self._namespace.update(test.globs)

    def give(self, **names: object) -> None:
        """Put names into the namespace that the page takes for granted."""
        self._namespace.update(names)
