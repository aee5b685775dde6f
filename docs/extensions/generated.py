"""Sphinx extension that replaces lines `<!-- generated: NAME … -->` by Markdown generated from the source.

| line | becomes |
|---|---|
| `names audit info` | names of `import cloze`, each with a link to its page |
| `settings FinetuneConfig` | every setting of a class and its sections |
| `project SECURITY.md` | a file of the repository |
| `repository` | an entry of a toctree for `CLOZE_REPOSITORY`, where the release is published from |
| `sources 3.1 (task 1)` | code for a section of the paper, by the "Source:" of docstrings |
| `code` | code that follows Google's released code, file by file |
| `papers` | code that follows other papers and programs |
| `commands` | every verb with every flag, from the command line's own help |
| `tasks` | every registered task |
| `routes` | every route of the server with its description and an example |
| `recipes pretraining`, `recipes finetuning`, `recipes studies` | every recipe with its comment |
| `table records/…/README.md 2` | the second table of a record |
| `claims 1 6` | these claims of the record that tests them |
| `block records/…/README.md 1` | the first block of output in it |

An image of `pictures/` is included inline, so that it follows the light or dark colors of the page.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from docstrings import PUBLIC, SOURCE, Definition, Docstring, read_class, read_modules, read_public

REPOSITORY = SOURCE.parent
_MARKER = re.compile(r"^<!-- generated: (\w+)(?: (.*?))? -->$", re.MULTILINE)
_PICTURE = re.compile(r"^!\[(.*)\]\((?:\.\./)*pictures/([\w-]+)\.svg\)$", re.MULTILINE)
_DOTTED = re.compile(r"`(cloze(?:\.\w+)+)`")
_RECORD_LINK = re.compile(r"\]\((?:\.\./)*records/")
_PROJECT_LINK = re.compile(r"\]\((?:\.\./)*(CHANGELOG|CODE_OF_CONDUCT|CONTRIBUTING|SECURITY)\.md")
_PAPER = "Devlin et al. 2019"
_SECTION = re.compile(r"(?<!table )(?<!figure )\b((?:[3-5](?:\.\d)?|A\.\d)(?: \(task \d\))?)(?!\d|\.\d)")
_SECTION_OF = {"figure 2": "3", "table 2": "4.2"}
"""Sections of figures and tables that a Source cites without their section."""
_CLAIM = re.compile(r"^## (\d+\. .+)\n\n> (.+(?:\n> .+)*)\n\n(\*\*(?:Agrees|Differs)(?:.+\n)+)", re.MULTILINE)
_RELEASED_CODE = re.compile(r"google-research/bert ([\w]+\.py)(?::([\d, -]*\d))?")


def pages() -> list[Path]:
    """Return all pages but the records and the reference of Python, which a build writes."""
    return [p for p in sorted((REPOSITORY / "docs").rglob("*.md")) if {"records", "api"}.isdisjoint(p.parts)]


def fill_in(text: str) -> str:
    """Return a page with its generated parts."""
    text = _MARKER.sub(lambda match: GENERATORS[match[1]](match[2] or ""), text)
    text = _RECORD_LINK.sub("](/records/", text)
    text = _PROJECT_LINK.sub(lambda match: f"](/project/{match[1].lower()}.md", text)
    text = _DOTTED.sub(lambda match: link(match[1], match[1]), text)
    return _PICTURE.sub(lambda match: inline_picture(match[2], match[1]), text)


# The API


def names(which: str) -> str:
    """List names of `import cloze`, with their pages."""
    definitions = [read_public(name) for name in which.split()]
    rows = [f"| {{py:obj}}`~cloze.{d.name}` | {d.docstring.summary} |" for d in definitions]
    pages = [f"{d.name} </reference/api/{d.kind}/{d.name}>" for d in definitions]
    table = "\n".join(["| | |\n|---|---|", *rows])
    return f"{table}\n\n" + "\n".join(["```{toctree}\n:hidden:\n", *pages, "```"])


def settings(name: str) -> str:
    """List the settings of a class and its sections."""
    import cloze

    return "\n".join(
        ["| setting | default | interval | |\n|---|---|---|---|", *_settings(getattr(cloze, name))]
    )


def _settings(kind: Any, prefix: str = "", values: object = None) -> Iterator[str]:
    texts = {m.name.rpartition(".")[2]: " ".join(m.docstring.text.split()) for m in read_class(kind).members}
    for field in fields(kind):
        default = "" if field.default_factory is MISSING else field.default_factory()
        default = getattr(values, field.name, default if field.default is MISSING else field.default)
        text = texts.get(field.name, "")
        parts = (field.type, *get_args(field.type))
        sections = [part for part in parts if isinstance(part, type) and is_dataclass(part)]
        if text or not sections:
            ranges = " ".join(part.interval for part in parts if hasattr(part, "interval"))
            shown = "" if sections and default is not None else default
            yield f"| `{prefix}{field.name}` | {shown} | {ranges} | {text} |"
        if sections:
            yield from _settings(sections[0], f"{prefix}{field.name}.", default)


def link(full_name: str, text: str) -> str:
    """Return a name as code, with a link if it is, or is a member of, a name of `import cloze`."""
    if full_name.split(".")[1] in PUBLIC:
        return f"{{py:obj}}`{text} <{full_name}>`"
    for name, module in PUBLIC.items():
        if f"{full_name}.".startswith(f"{module}.{name}."):
            return f"{{py:obj}}`{text} <cloze.{full_name.removeprefix(f'{module}.')}>`"
    return f"`{text}`"


def write_reference(into: Path) -> None:
    """Write a page for each name of `import cloze`; `Audit` and `audit` need two directories on some systems."""
    for name in PUBLIC:
        definition = read_public(name)
        (into / definition.kind).mkdir(parents=True, exist_ok=True)
        page = f"# cloze.{name}\n\n{_definition(definition)}\n"
        (into / definition.kind / f"{name}.md").write_text(page, "utf-8")


def _definition(definition: Definition, *, depth: int = 0) -> str:
    fence = ":" * (5 - depth)
    name = definition.name.rpartition(".")[2]
    options = [":module: cloze"] if depth == 0 else []
    if definition.annotation is not None:
        options.append(f":type: {definition.annotation}")
    if definition.value is not None and definition.kind in ("attribute", "data"):
        options.append(f":value: {definition.value}")
    members = "\n\n".join(_definition(member, depth=depth + 1) for member in definition.members)
    head = f"{fence}{{py:{definition.kind}}} {name}{definition.signature}"
    return "\n".join([head, *options, "", _prose(definition.docstring), "", members, fence])


def _prose(docstring: Docstring) -> str:
    """Return a docstring as Markdown, which it is but for its examples and sections."""
    parts = [re.sub(r"(?m)^[ ]*>>> .*(?:\n(?!\n).*)*", r"```pycon\n\g<0>\n```", docstring.text)]
    for heading, text in docstring.parts.items():
        if heading in ("Args", "Raises"):
            parts.append(f"**{heading}**\n\n{_items(text)}")
        else:
            parts.append(f"**{heading}:** {' '.join(text.split())}" if "\n\n" not in text else text)
    return "\n\n".join(filter(None, parts))


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
    """Yield a link, the docstring and the Source of everything that cites one."""
    for module in read_modules():
        if "Source" in module.docstring.parts:
            yield f"`{module.name}`", module.docstring, module.docstring.parts["Source"]
        for definition in module.walk():
            if "Source" in definition.docstring.parts:
                name = f"{module.name.rpartition('.')[2]}.{definition.name}"
                source = definition.docstring.parts["Source"]
                yield link(definition.full_name, name), definition.docstring, source


def sections_of(source: str) -> list[str]:
    """Return the sections of the BERT paper that a Source cites: `3.1 (task 1)`, `A.2`."""
    cited = "".join(part.split(_PAPER)[1] for part in source.split(";") if _PAPER in part)
    return _SECTION.findall(cited) or [section for place, section in _SECTION_OF.items() if place in cited]


def sources(section: str) -> str:
    """List the code for a section of the paper."""
    rows = [
        f"| {name} | {docstring.summary} | {_lines(source)} |"
        for name, docstring, source in cited()
        if section in sections_of(source)
    ]
    if not rows:
        raise LookupError(f"no Source cites section {section} of the paper")
    return "| in the code | does | in Google's code |\n|---|---|---|\n" + "\n".join(rows)


def code(_: str) -> str:
    """List code that follows Google's released code, file by file."""
    citations = sorted(
        (file, lines.strip(), f"| {name} | {docstring.summary} |")
        for name, docstring, source in cited()
        for file, lines in _RELEASED_CODE.findall(source)
    )
    files: dict[str, list[str]] = {}
    for file, lines, row in citations:
        files.setdefault(file, []).append(f"| {lines} {row}")
    head = "| lines | in the code | does |\n|---|---|---|\n"
    return "\n\n".join(f"### {file}\n\n{head}" + "\n".join(rows) for file, rows in files.items())


def papers(_: str) -> str:
    """List the code that follows other papers and programs."""
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

BAR = "\\|"  # in a table cell


def commands(_: str) -> str:
    """Describe every verb and flag, as `--help` does."""
    from cloze.cli import VERBS

    return "\n\n".join(map(_verb, VERBS))


def _verb(verb: str) -> str:
    from cloze.cli import load_verb
    from cloze.cli.parser import COMMON_FLAGS, Command

    command = Command(load_verb(verb), f"cloze {verb}")
    parameters = [p for p in command.parameters.values() if p.name not in COMMON_FLAGS]
    rows = [f"| `{p.usage.replace('|', BAR)}` | {p.text.replace('|', BAR)} |" for p in parameters]
    table = "\n".join(["| | |\n|---|---|", *rows])
    return f"## cloze {verb}\n\n{command.description}\n\n```text\n{command.usage}\n```\n\n{table}"


def tasks(_: str) -> str:
    """List every registered task with its main score, data and source."""
    from cloze.tasks.registry import TASKS

    rows = [
        f"| `{name}` | {task.metrics[0]} | {task.data_format} | {task.source} |"
        for name, task in sorted(TASKS.items())
    ]
    return "| task | main score | data | source |\n|---|---|---|---|\n" + "\n".join(rows)


def routes(_: str) -> str:
    """List every route of the server with its description and an example."""
    from cloze.serving.app import ROUTES

    rows = []
    for route in ROUTES:
        if route.response is not None:
            description = " ".join((route.handler.__doc__ or "").split())
            example = getattr(route, "example", None)
            shown = f"`{json.dumps(example, ensure_ascii=False)}`" if example else ""
            rows.append(f"| `{route.path}` | {description} | {shown} |")
    return "| route | answer | example of a request |\n|---|---|---|\n" + "\n".join(rows)


# The repository, recipes, records, pictures


def project(name: str) -> str:
    """Return a file of the repository, whose links lead to pages."""
    return (REPOSITORY / name).read_text("utf-8").replace("](docs/", "](/")


def repository(_: str) -> str:
    """Return the repository's entry in the navigation."""
    address = os.environ.get("CLOZE_REPOSITORY")
    return f"Repository <{address}>" if address else ""


def recipes(kind: str) -> str:
    """Show every recipe: its first comment as prose, then the settings."""
    bundled = SOURCE / "cloze" / "recipes"
    folders = {"pretraining": bundled, "studies": REPOSITORY / "research/experiments/studies"}
    folder = folders.get(kind, bundled / kind)
    return "\n\n".join(_recipe(path) for path in sorted(folder.glob("*.toml")))


def _recipe(path: Path) -> str:
    text = path.read_text("utf-8")
    comment = re.match(r"(?:#.*\n)*", text)
    assert comment is not None
    prose = re.sub("^# ?", "", comment[0], flags=re.MULTILINE)
    prose = re.sub(r"^ +((?:cloze|python -m experiments) .*)$", r"```sh\n\1\n```", prose, flags=re.MULTILINE)
    return f"### {path.stem}\n\n{prose}\n```toml\n{text[comment.end() :].strip()}\n```"


def table(which: str) -> str:
    """Return the n-th table of a record, counted from 1, with a link."""
    return _quote(which, r"(?:^\|.*\n)+")


def block(which: str) -> str:
    """Return the n-th block of output in a record, counted from 1, with a link."""
    return _quote(which, r"^```(?:text)?\n(?:.*\n)*?```\n")


def claims(numbers: str) -> str:
    """List claims of the record, from the first to the last number: each with a link and the first sentence on it."""
    first, last = map(int, numbers.split())
    rows: dict[int, str] = {}
    for readme in (REPOSITORY / "records" / "2026-11-27-claims").glob("*/README.md"):
        for heading, claim, verdict in _CLAIM.findall(readme.read_text("utf-8")):
            anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            place = f"/{readme.relative_to(REPOSITORY)}#{anchor}"
            said = " ".join(claim.replace("\n>", "").split())
            first_sentence = re.split(r"(?<=\.)\s(?!\d)", " ".join(verdict.split()))[0]
            first_sentence = re.sub(r"(?<=\.\*\*) .*:$", "", first_sentence)  # it introduces the evidence
            rows[int(heading.partition(".")[0])] = f"| [{heading}]({place}) | {said} | {first_sentence} |"
    listed = "\n".join(rows[number] for number in range(first, last + 1))
    return f"| | claim | verdict |\n|---|---|---|\n{listed}"


def _quote(which: str, pattern: str) -> str:
    name, number = which.split()
    matches = re.findall(pattern, (REPOSITORY / name).read_text("utf-8"), re.MULTILINE)
    return f"{matches[int(number) - 1]}\n([record](/{name}))"


def inline_picture(name: str, alternative: str) -> str:
    """Return an SVG picture as inline HTML; its title and description are its text alternative."""
    svg = (REPOSITORY / "docs" / "pictures" / f"{name}.svg").read_text("utf-8").strip()
    return (
        f'```{{raw}} html\n<figure class="drawing">{svg}<figcaption>{alternative}</figcaption></figure>\n```'
    )


GENERATORS: dict[str, Callable[[str], str]] = {
    "names": names,
    "project": project,
    "settings": settings,
    "repository": repository,
    "sources": sources,
    "code": code,
    "papers": papers,
    "commands": commands,
    "tasks": tasks,
    "routes": routes,
    "recipes": recipes,
    "table": table,
    "block": block,
    "claims": claims,
}


def copy_records(into: Path) -> None:
    """Copy the README of every record, with the files that it links to, as a page."""
    for readme in sorted((REPOSITORY / "records").rglob("README.md")):
        place = into / readme.parent.relative_to(REPOSITORY / "records")
        place.mkdir(parents=True, exist_ok=True)
        text = readme.read_text("utf-8")
        for name, target in re.findall(r"\[([^\]]*)\]\(([\w./-]+)\)", text):
            linked = readme.parent / target
            if linked.is_dir():
                text = text.replace(f"[{name}]({target})", f"`{target}`")
            elif linked.suffix != ".md":
                (place / target).write_bytes(linked.read_bytes())
        (place / "README.md").write_text(text, "utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the extension with Sphinx."""

    def fill_page(_app: Any, _docname: str, source: list[str]) -> None:
        source[0] = fill_in(source[0])

    app.connect("builder-inited", lambda app: copy_records(Path(app.srcdir) / "records"))
    app.connect("builder-inited", lambda app: write_reference(Path(app.srcdir) / "reference" / "api"))
    app.connect("source-read", fill_page)
    return {"parallel_read_safe": True}
