"""The prose and the names of the code and the docs: plain technical English, American spelling, the field's terms.

Print the findings of files or directories with `python tests/test_writing.py PATHS`.
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CHECKED = (
    *("src", "benchmarks", "experiments", "docs", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("page/src", "page/static", "page/build.mjs", "page/choose_examples.py", "page/measure.py"),
)
SUFFIXES = (".py", ".md", ".ipynb", ".toml", ".html", ".js", ".mjs", ".ts", ".tsx")
BUILT = (
    "src/cloze/serving/page/",
    *(f"src/cloze/reports/{name}.js" for name in ("attention", "explanations", "report")),
)
"""By make page, from page/src."""
SKIPPED = tuple(
    f"{ROOT}/{name}" for name in ("src/cloze/pretrained/", "src/cloze/demo/data/", "docs/records/", *BUILT)
)

TURNS = {
    "opens with What or Who": re.compile(
        r"(?:^[ \t>*-]*|[.!?:|][ \t]+|^[ \t]*[*\w.]+: )(?:What|Who|(?<=\w: )(?:what|who)) (?![^.!]*\?)",
        re.MULTILINE,
    ),
    "clause opens with of which": re.compile(r"(?:^|[.,;:(]\s+)of which\b", re.IGNORECASE | re.MULTILINE),
    "turn": re.compile(r"\b(?i:is\s+(?-i:none)|to\s+be\s+had|goes\s+on|anew|begun|who\s+comes|is\s+told)\b"),
}
_OUR = "armo behavio colo endeavo favo flavo harbo hono humo labo neighbo rumo vapo"
_ISE = (
    "amort apolog author bin initial capital categor character critic custom digit discret factor final general "
    "harmon italic lemmat linear local material maxim memor minim modern neutral normal optim organ parallel "
    "parameter penal priorit quant random real recogn regular serial special stabil standard subsid summar "
    "symbol synchron token trivial util vector virtual visual"
)
_LL = "cancel channel dial fuel label level marshal model panel signal total travel tunnel unlabel"
BRITISH = re.compile(
    rf"(?:{'|'.join(_OUR.split())})ur(?!c)\w*"
    rf"|\w*(?:{'|'.join(_ISE.split())})is(?:e|ed|es|er|ers|ing|able|ation|ations)"
    r"|(?:anal|paral|catal)ys(?:e|ed|es|ing)|emphasis(?:e|ed|es|ing)"
    rf"|(?:{'|'.join(_LL.split())})l(?:ed|er|ers|ing)"
    r"|(?:un)?(?:licence|defence|offence|pretence)[sd]?|practis(?:e|ed|es|ing)|grey\w*|art[e]fact\w*"
    r"|(?:cent|fib|lit|met|theat|calib)re[sd]?|programmes?|cheques?|judgements?|acknowledgements?|ageing"
    r"|whilst|amongst|learnt|spelt|burnt|dreamt|sceptic\w*|moulds?|ploughs?|draughts?|fulfil|enrol|skilful|wilful"
    r"|instalments?|manoeuvre\w*|catalogues?|analogue|cosy|storeys?|tonnes?|kerbs?",
    re.IGNORECASE,
)
INVENTED = re.compile(
    r"(?:Material|work_of|Work|merit|World|join_world|by_first|Replica|_?Door|Stretch|seal|Cursor|Position"
    r"|not_as_begun|begun_from|alone_at|is_solved|two_way|given|found|own|each|there)"
    r"|_?(?:MOST|LEAST)_\w+|_?(?:most|least)_(?!cut|frequent|repeated|similar)\w+|(?:\w+_)?pieces?(?:_\w+)?|\w*Pieces?(?:[A-Z]\w*)?"
)

OF_LIBRARIES = {"CancelledError", "cancelled"}
"""Names that are not ours to spell."""

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""(file, the words found) to the reason why they stay; fewer than 20."""


class Finding(NamedTuple):
    """Words that are refused, and where."""

    path: str
    line: int
    rule: str
    words: str


class Prose(NamedTuple):
    """A text for people and the line where it begins."""

    line: int
    text: str


def prose_of_python(source: str) -> Iterator[Prose]:
    """Yield docstrings, comments, and the string literals that are sentences: messages and help."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            literals = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            text = "".join(map(str, literals))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if text.count(" ") >= 2:
            yield Prose(node.lineno, re.sub(r"(?m)^ *(?:>>>|\.\.\.) .*$", "", text))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.string.lstrip("# "))


def names_of_python(source: str) -> Iterator[tuple[int, str, bool]]:
    """Yield every name: its line, and whether it is defined there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name, True
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, True
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id, isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr, isinstance(node.ctx, ast.Store)


def prose_of_markdown(source: str) -> Iterator[Prose]:
    """Yield the text outside of code blocks and link targets."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * match.group().count("\n")

    text = re.sub(r"(?ms)^ *(```+|~~~+).*?^ *\1 *$", blank, source)
    text = re.sub(r"(?s)<!--.*?-->", blank, text)
    yield Prose(1, re.sub(r"\]\([^)]*\)", "]", text))


def prose_of(path: Path) -> Iterator[Prose]:
    """Yield the texts for people of a file."""
    source = path.read_text("utf-8")
    match path.suffix:
        case ".py":
            yield from prose_of_python(source)
        case ".md":
            yield from prose_of_markdown(source)
        case ".ipynb":
            for cell in json.loads(source)["cells"]:
                if cell["cell_type"] == "markdown":
                    yield from prose_of_markdown("".join(cell["source"]))
        case ".toml":
            for line, text in enumerate(source.splitlines(), 1):
                yield Prose(line, text.partition("#")[2].strip())
        case _:
            yield Prose(1, source)


def findings_in(path: Path) -> Iterator[Finding]:
    """Yield the refused words of a file."""
    name = path.resolve().relative_to(ROOT).as_posix() if path.resolve().is_relative_to(ROOT) else str(path)
    for prose in prose_of(path):
        text = re.sub(r"``.+?``|`[^`]*`", lambda match: "`" + "\n" * match.group().count("\n"), prose.text)
        rules = TURNS | {"British spelling": re.compile(rf"\b(?:{BRITISH.pattern})\b", re.IGNORECASE)}
        for rule, pattern in rules.items():
            for match in pattern.finditer(text):
                line = prose.line + text.count("\n", 0, match.end())
                yield Finding(name, line, rule, " ".join(match.group().split()).lstrip(" .|>*-"))
    if path.suffix == ".py":
        for line, identifier, is_defined in names_of_python(path.read_text("utf-8")):
            words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", identifier)
            if identifier not in OF_LIBRARIES and any(BRITISH.fullmatch(word) for word in words):
                yield Finding(name, line, "British spelling", identifier)
            if is_defined and INVENTED.fullmatch(identifier):
                yield Finding(name, line, "invented word", identifier)


def files_below(path: Path) -> list[Path]:
    """Return the files to check at a path, which may be a file."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    return [file for file in files if file.suffix in SUFFIXES and not str(file.resolve()).startswith(SKIPPED)]


@cache
def all_findings() -> list[Finding]:
    """Return the findings of everything that is checked, without the exceptions."""
    files = [file for name in CHECKED for file in files_below(ROOT / name)]
    return [finding for file in files for finding in findings_in(file)]


def test_prose_and_names_are_plain():
    refused = [
        f"{finding.path}:{finding.line}: {finding.rule}: {finding.words}"
        for finding in all_findings()
        if (finding.path, finding.words) not in EXCEPTIONS
    ]
    assert not refused, "\n".join(refused)


def test_exceptions_are_few_and_needed():
    assert len(EXCEPTIONS) < 20
    needed = {(finding.path, finding.words) for finding in all_findings()}
    assert set(EXCEPTIONS) <= needed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is held out.", "What"),
        ("One sentence. Who waits", "Who"),
        ("| What it is | x |", "What"),
        ("Args:\n    path: what is read.", "path: what"),
        ("three files, of which one is empty", ", of which"),
        ("an answer that is none", "is none"),
        ("a neighbour and its colour", "neighbour"),
        ("an initialised, labelled artefact", "initialised"),
    ],
)
def test_old_turns_are_refused(text, words, tmp_path):
    (tmp_path / "page.md").write_text(text)
    assert words in [finding.words.strip() for finding in findings_in(tmp_path / "page.md")]


@pytest.mark.parametrize(
    "text",
    [
        "What is held out?",
        "This shows what is held out.",
        "three files, one of which is empty",
        "```\nWhat is held out.\n```",
        "`colour` is a key",
        "an emphasis, an exercise, a promise, a source, an optimist, four hours, a controlled color",
    ],
)
def test_plain_text_is_accepted(text, tmp_path):
    (tmp_path / "page.md").write_text(text)
    assert not list(findings_in(tmp_path / "page.md"))


def test_names_are_checked_in_python(tmp_path):
    (tmp_path / "module.py").write_text("import torch\nneighbours = 1\nmerit = torch.colour\npieces = 2\n")
    found = [(finding.rule, finding.words) for finding in findings_in(tmp_path / "module.py")]
    assert sorted(found) == [
        ("British spelling", "colour"),
        ("British spelling", "neighbours"),
        ("invented word", "merit"),
        ("invented word", "pieces"),
    ]


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        for file in files_below(Path(argument)):
            for path, line, rule, words in findings_in(file):
                print(f"{path}:{line}: {rule}: {words}")
