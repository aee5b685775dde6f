"""What the pages do not say by hand: a line `<!-- generated: WHAT … -->` becomes Markdown made from the source.

| line | becomes |
|---|---|
| `api cloze.model` | every public name of a room, with signature and docstring |
| `foundations` | the same for the modules that stand below the rooms |
| `public` | the names that `import cloze` offers |
| `sources 3.1 (task 1)` | what follows this section of the paper, by the "Source:" of the docstrings |
| `code` | what follows Google's released code, file by file |
| `papers` | what follows other papers and programs |
| `commands` | every verb with every flag, from the command line's own help |
| `tasks` | every registered task |
| `recipes pretraining`, `recipes finetuning`, `recipes studies` | every recipe with what it says of itself |
| `table records/…/README.md 2` | the second table of a record |
| `block records/…/README.md 1` | the first block of output in it |
| `claims` | a row for each claim that is checked on a page of `claims/`: what is said, and whether it is so |

An image of `pictures/` is put into the page itself, so that it follows the page's light or dark colours.
"""

import ast
import io
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from docstrings import SOURCE, Definition, Docstring, Module, modules_of, read_module
from docutils import nodes
from sphinx.addnodes import pending_xref

REPOSITORY = SOURCE.parent
_MARKER = re.compile(r"^<!-- generated: (\w+)(?: (.*?))? -->$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[(.*)\]\((?:\.\./)*pictures/([\w-]+)\.svg\)$", re.MULTILINE)
_RECORD_LINK = re.compile(r"\]\((?:\.\./)+records/")
_PAPER = "Devlin et al. 2019"
_SECTION = re.compile(r"(?<!table )(?<!figure )\b((?:[3-5](?:\.\d)?|A\.\d)(?: \(task \d\))?)(?!\d|\.\d)")
_SECTION_OF = {"figure 2": "3", "table 2": "4.2"}
"""Where figures and tables stand that a Source names without their section."""
_RELEASED_CODE = re.compile(r"google-research/bert ([\w]+\.py)(?::([\d, -]*\d))?")


def fill_in(text: str) -> str:
    """Return a page with everything generated put in its place."""
    text = _MARKER.sub(lambda found: GENERATORS[found[1]](found[2] or ""), text)
    text = _RECORD_LINK.sub("](/records/", text)
    return _PICTURE.sub(lambda found: inline_picture(found[2], found[1]), text)


# The API


def api(package: str) -> str:
    """Describe every public name of a package, module by module."""
    return "\n\n".join(_module(module) for module in modules_of(package) if module.definitions)


def foundations(_: str) -> str:
    """Describe every public name of the modules that belong to no room."""
    return "\n\n".join(api(module) for module in rooms() if not (SOURCE / Path(*module.split("."))).is_dir())


def rooms() -> list[str]:
    """Return the packages and single modules that have a place in the reference: all but the verbs and the demo."""
    found = (path for path in sorted((SOURCE / "cloze").iterdir()) if path.suffix in ("", ".py"))
    names = [path.stem for path in found if path.suffix or (path / "__init__.py").is_file()]
    return [f"cloze.{name}" for name in names if not name.startswith("_") and name not in ("cli", "demo")]


def public(_: str) -> str:
    """List what `import cloze` offers, and where it lives."""
    rows = [
        f"| {link(home, f'cloze.{name}')} | {_find(home).docstring.summary} |"
        for name, home in sorted(read_homes().items())
    ]
    return "| name | |\n|---|---|\n" + "\n".join(rows)


def read_homes() -> dict[str, str]:
    """Return where each public name of the package lives, as a dotted name."""
    tree = ast.parse((SOURCE / "cloze" / "__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            table: dict[str, str] = ast.literal_eval(node.value)
            return {name: home.replace(":", ".") for name, home in table.items()}
    raise LookupError("cloze/__init__.py has no _HOMES")


def link(full_name: str, text: str | None = None) -> str:
    """Return a link to the description of a public name; without a text it shows the name's last word."""
    definition = _find(full_name)
    role = {
        "function": "func", "class": "class", "exception": "exc", "method": "meth", "classmethod": "meth",
        "staticmethod": "meth", "property": "attr", "attribute": "attr", "data": "data",
    }[definition.kind]  # fmt: skip
    target = f"~{full_name}" if text is None else f"{text} <{full_name}>"
    return f"{{py:{role}}}`{target}`"


def _find(full_name: str) -> Definition:
    module = full_name
    while module := module.rpartition(".")[0]:
        path = SOURCE / Path(*module.split("."))
        if path.with_suffix(".py").is_file() or path.is_dir():
            for definition in read_module(module).walk():
                if definition.full_name == full_name:
                    return definition
    raise LookupError(f"nothing is called {full_name}")


def _module(module: Module) -> str:
    described = "\n\n".join(_definition(definition) for definition in module.definitions)
    return f"## {module.name}\n\n:::{{py:module}} {module.name}\n:::\n\n{_prose(module.docstring)}\n\n{described}"


def _definition(definition: Definition, *, depth: int = 0) -> str:
    fence = ":" * (5 - depth)
    name = definition.name.rpartition(".")[2]
    options = [f":module: {definition.module}"] if depth == 0 else []
    if definition.annotation is not None:
        options.append(f":type: {definition.annotation}")
    if definition.value is not None and definition.kind in ("attribute", "data"):
        options.append(f":value: {definition.value}")
    members = "\n\n".join(_definition(member, depth=depth + 1) for member in definition.members)
    head = f"{fence}{{py:{definition.kind}}} {name}{definition.signature}"
    return "\n".join([head, *options, "", _prose(definition.docstring), "", members, fence])


def _prose(docstring: Docstring) -> str:
    """Write a docstring as Markdown."""
    parts = [_text(docstring.text)]
    for heading, text in docstring.parts.items():
        if heading in ("Args", "Raises"):
            parts.append(f"**{heading}**\n\n{_items(text)}")
        else:
            parts.append(f"**{heading}:** {' '.join(text.split())}" if "\n\n" not in text else text)
    return "\n\n".join(filter(None, parts))


def _text(text: str) -> str:
    """Fence what is an example; the rest is Markdown already."""
    return re.sub(
        r"(?:^[ ]*>>> .*(?:\n(?!\n).*)*)",
        lambda found: f"```pycon\n{found[0]}\n```",
        text,
        flags=re.MULTILINE,
    )


def _items(text: str) -> str:
    items: list[list[str]] = []
    for line in text.splitlines():
        if line and not line.startswith(" "):
            items.append([line])
        elif items:
            items[-1].append(line.strip())
    joined = (" ".join(item) for item in items)
    return "\n".join(
        re.sub(r"^([\w.*, ]+?): ", r"- `\1`: ", item) if ": " in item else f"- {item}" for item in joined
    )


# The paper and other sources


def cited() -> Iterator[tuple[str, Docstring, str]]:
    """Yield a link, the docstring and the Source of all that names one."""
    for room in rooms():
        for module in modules_of(room):
            if "Source" in module.docstring.parts:
                yield f"{{py:mod}}`{module.name}`", module.docstring, module.docstring.parts["Source"]
            for definition in module.walk():
                if "Source" in definition.docstring.parts:
                    name = f"{module.name.rpartition('.')[2]}.{definition.name}"
                    source = definition.docstring.parts["Source"]
                    yield link(definition.full_name, name), definition.docstring, source


def sections_of(source: str) -> list[str]:
    """Return the sections of the BERT paper that a Source names: `3.1 (task 1)`, `A.2`."""
    cited = "".join(part.split(_PAPER)[1] for part in source.split(";") if _PAPER in part)
    return _SECTION.findall(cited) or [section for place, section in _SECTION_OF.items() if place in cited]


def sources(section: str) -> str:
    """List what follows a section of the paper."""
    rows = [
        f"| {name} | {docstring.summary} | {_lines(source)} |"
        for name, docstring, source in cited()
        if section in sections_of(source)
    ]
    if not rows:
        raise LookupError(f"no Source names section {section} of the paper")
    return "| in the code | does | in Google's code |\n|---|---|---|\n" + "\n".join(rows)


def code(_: str) -> str:
    """List what follows Google's released code, file by file."""
    found = sorted(
        (file, lines.strip(), f"| {name} | {docstring.summary} |")
        for name, docstring, source in cited()
        for file, lines in _RELEASED_CODE.findall(source)
    )
    files: dict[str, list[str]] = {}
    for file, lines, row in found:
        files.setdefault(file, []).append(f"| {lines} {row}")
    head = "| lines | in the code | does |\n|---|---|---|\n"
    return "\n\n".join(f"### {file}\n\n{head}" + "\n".join(rows) for file, rows in files.items())


def papers(_: str) -> str:
    """List what follows something else than the BERT paper or its code."""
    rows = []
    for name, docstring, source in cited():
        others = [p.strip() for p in source.split(";") if _PAPER not in p and not _RELEASED_CODE.search(p)]
        if others:
            rows.append(f"| {name} | {docstring.summary} | {' '.join('; '.join(others).split())} |")
    return "| in the code | does | after |\n|---|---|---|\n" + "\n".join(rows)


def _lines(source: str) -> str:
    return ", ".join(
        f"`{file}`{':' + lines if lines else ''}" for file, lines in _RELEASED_CODE.findall(source)
    )


# The command line

_BORDERS = re.compile("\x1b\\[[0-9;]*m|[╭╮╰╯│]")
BAR = "\\|"  # within a cell
_COMMON = ("--quiet", "--json", "--debug", "-h")


def commands(_: str) -> str:
    """Describe every verb and every flag, as `--help` does."""
    from cloze.cli import VERBS

    return "\n\n".join(_verb(verb) for verb in VERBS)


def _verb(verb: str) -> str:
    first = _help_of(verb)
    parts = [f"## cloze {verb}\n\n{_describe_help(first)}"]
    subcommands = re.findall(r"^ *• ([\w-]+)", first, re.MULTILINE)
    parts += [f"### cloze {verb} {name}\n\n{_describe_help(_help_of(verb, name))}" for name in subcommands]
    return "\n\n".join(parts)


def _help_of(verb: str, *words: str) -> str:
    """Return what `cloze VERB --help` prints on a wide terminal, without its frames."""
    from cloze.cli import module_of
    from cloze.cli.usage import parse

    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # else the frames are of other characters
    run: Callable[..., None] = import_module(module_of(verb)).run
    with patch.dict(os.environ, {"COLUMNS": "300"}), redirect_stdout(printed), suppress(SystemExit):
        parse(run, verb, [*words, "--help"])
    printed.seek(0)
    return "\n".join(_BORDERS.sub("", line).rstrip() for line in printed.read().splitlines())


def _describe_help(text: str) -> str:
    usage, *boxes = re.split(r"^─ ([\w ]+) ─+$", re.sub("(?m)^─+$", "", text), flags=re.MULTILINE)
    command, _, description = usage.partition("\n")
    parts = [textwrap.dedent(description).strip(), f"```text\n{command.removeprefix('usage: ')}\n```"]
    for entries in boxes[1::2]:
        rows = [row for row in _flags(entries) if not row.startswith(tuple(f"| `{f}" for f in _COMMON))]
        if rows:
            parts.append("| | |\n|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _flags(entries: str) -> Iterator[str]:
    """Yield a row of a table for each flag, positional argument or subcommand of a frame."""
    for entry in re.split(r"\n {1,2}(?=[-A-Z{•])", "\n" + entries):
        name, _, told = re.sub(r" {2,}|\n", "\0", entry.strip(" •\n"), count=1).partition("\0")
        told = re.sub(r"\(default: (?:False)?\)$", "", " ".join(told.split())).strip()
        if told:
            yield " | ".join(("", f"`{name.replace('|', BAR)}`", told.replace("|", BAR), "")).strip()


def tasks(_: str) -> str:
    """List every registered task: its data, its main score and where both come from."""
    from cloze.tasks.registry import tasks as registered

    rows = [
        f"| `{name}` | {task.main_metric} | {task.data_format} | {task.source} |"
        for name, task in sorted(registered().items())
    ]
    return "| task | main score | data | source |\n|---|---|---|---|\n" + "\n".join(rows)


# Recipes, records, pictures


def recipes(kind: str) -> str:
    """Show every recipe: its leading comment as prose, then the settings."""
    folder = SOURCE / "cloze" / "recipes" / ("" if kind == "pretraining" else kind)
    return "\n\n".join(_recipe(path) for path in sorted(folder.glob("*.toml")))


def _recipe(path: Path) -> str:
    text = path.read_text("utf-8")
    comment = re.match(r"(?:#.*\n)*", text)
    assert comment is not None
    prose = re.sub("^# ?", "", comment[0], flags=re.MULTILINE)
    prose = re.sub(r"^ +(cloze .*)$", r"```sh\n\1\n```", prose, flags=re.MULTILINE)
    return f"### {path.stem}\n\n{prose}\n```toml\n{text[comment.end() :].strip()}\n```"


def table(which: str) -> str:
    """Return the n-th table of a record, counted from 1, and where it stands."""
    return _quote(which, r"(?:^\|.*\n)+")


def block(which: str) -> str:
    """Return the n-th block of output in a record, counted from 1, and where it stands."""
    return _quote(which, r"^```(?:text)?\n(?:.*\n)*?```\n")


def _quote(which: str, pattern: str) -> str:
    name, number = which.split()
    found = re.findall(pattern, (REPOSITORY / name).read_text("utf-8"), re.MULTILINE)
    return f"{found[int(number) - 1]}\n([record](/{name}))"


_CLAIM = re.compile(
    r"^## (?P<number>\d+)\. (?P<title>.+)\n\n(?P<said>(?:> .+\n)+)\n\*\*(?P<verdict>Agrees|Differs)",
    re.MULTILINE,
)


def claims(_: str) -> str:
    """List every claim with its verdict, in the order of their numbers, and where it is checked."""
    found = (
        (path.name, claim)
        for path in (REPOSITORY / "docs" / "claims").glob("*.md")
        for claim in _CLAIM.finditer(path.read_text("utf-8"))
    )
    rows = []
    for page, claim in sorted(found, key=lambda each: int(each[1]["number"])):
        anchor = re.sub(r"[^\w -]", "", f"{claim['number']}. {claim['title']}".lower()).replace(" ", "-")
        said = " ".join(claim["said"].replace("> ", "").split())
        rows.append(f"| [{claim['number']}]({page}#{anchor}) | {said} | {claim['verdict'].lower()} |")
    return "| | claim | |\n|---|---|---|\n" + "\n".join(rows)


def inline_picture(name: str, alternative: str) -> str:
    """Return a picture as a figure of the page; its own title and description are its text alternative."""
    svg = (REPOSITORY / "docs" / "pictures" / f"{name}.svg").read_text("utf-8").strip()
    return (
        f'```{{raw}} html\n<figure class="drawing">{svg}<figcaption>{alternative}</figcaption></figure>\n```'
    )


GENERATORS: dict[str, Callable[[str], str]] = {
    "api": api,
    "foundations": foundations,
    "public": public,
    "sources": sources,
    "code": code,
    "papers": papers,
    "commands": commands,
    "tasks": tasks,
    "recipes": recipes,
    "table": table,
    "block": block,
    "claims": claims,
}


def copy_records(into: Path) -> None:
    """Make a page of every record's README, with the files that it links to beside it."""
    for readme in sorted((REPOSITORY / "records").rglob("README.md")):
        place = into / readme.parent.relative_to(REPOSITORY / "records")
        place.mkdir(parents=True, exist_ok=True)
        text = readme.read_text("utf-8")
        for name, target in re.findall(r"\[([^\]]*)\]\(([\w./-]+)\)", text):
            linked = readme.parent / target
            if linked.is_dir():
                text = text.replace(f"[{name}]({target})", f"`{target}`")
            elif linked.suffix != ".md":
                _write_if_new(place / target, linked.read_bytes())
        _write_if_new(place / "README.md", text.encode())


def _write_if_new(path: Path, content: bytes) -> None:
    """Leave a file alone that is as it should be: Sphinx goes by its time."""
    if not path.is_file() or path.read_bytes() != content:
        path.write_bytes(content)


def _leave_builtins_unlinked(_app: Any, doctree: nodes.document) -> None:
    """Show Python's own types by their short names: there is no page to link to, and Sphinx would find another."""
    for reference in list(doctree.findall(pending_xref)):
        if reference["reftarget"].startswith("builtins."):
            reference.replace_self(nodes.Text(reference["reftarget"].removeprefix("builtins.")))


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx when to fill in."""

    def fill_page(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = fill_in(source[0])

    app.connect("doctree-read", _leave_builtins_unlinked)
    app.connect("builder-inited", lambda app: copy_records(Path(app.srcdir) / "records"))
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}
