"""Read public names, signatures and docstrings from the source without importing it.

A docstring of cloze is Markdown with a few headed sections (Shapes, Args, Returns, Yields, Raises, Source, Differs).
"""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import chain
from operator import attrgetter
from pathlib import Path

from cloze import MODULES as PUBLIC

SOURCE = Path(__file__).resolve().parents[2] / "src"

_HEADINGS = ("Shapes", "Args", "Returns", "Yields", "Raises", "Source", "Differs")
_HEADING = re.compile(rf"^({'|'.join(_HEADINGS)}):[ ]?(.*)$")
_PRIVATE_PARAMETERS = ("self", "cls")
_OPTIONS = "cloze.options"
_GROUPS = (_OPTIONS, "cloze.api.texts")
"""The modules of groups of keywords."""


@dataclass(frozen=True)
class Docstring:
    """The sections of a docstring."""

    text: str
    """The text before the first section."""
    parts: dict[str, str]
    """The sections by heading, in order."""

    @property
    def summary(self) -> str:
        """The first sentence, or the first paragraph if that is shorter."""
        paragraph = " ".join(self.text.split("\n\n")[0].split())
        return re.split(r"(?<=[.?!])\s+(?=[A-Z])", paragraph, maxsplit=1)[0]


@dataclass(frozen=True)
class Definition:
    """A public function, class, method, field or constant."""

    kind: str
    """The directive of Sphinx's Python domain."""
    module: str
    name: str
    """Within the module: `Tokenizer.encode`."""
    signature: str
    """From the opening parenthesis; empty for variables."""
    annotation: str | None
    value: str | None
    docstring: Docstring
    members: tuple["Definition", ...] = ()

    @property
    def full_name(self) -> str:
        """The dotted name, for links."""
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Module:
    """A module with its public definitions."""

    name: str
    docstring: Docstring
    definitions: tuple[Definition, ...]

    def walk(self) -> Iterator[Definition]:
        """Yield the definitions and their members."""
        for definition in self.definitions:
            yield definition
            yield from definition.members


def read_docstring(text: str | None) -> Docstring:
    """Split a docstring into sections; a section ends with a paragraph that is not indented below it."""
    before: list[str] = []
    parts: dict[str, list[str]] = {}
    current, after_blank = before, False
    for line in inspect.cleandoc(text or "").splitlines():
        heading = _HEADING.match(line)
        if heading:
            current = parts.setdefault(heading[1], [])
            current.append(heading[2])
        else:
            if after_blank and line and not line.startswith(" ") and current is not before:
                current = before
                current.append("")
            current.append(line)
        after_blank = not line
    joined = {name: inspect.cleandoc("\n".join(lines)).strip() for name, lines in parts.items()}
    return Docstring("\n".join(before).strip(), joined)


@cache
def read_module(name: str) -> Module:
    """Read a module by its dotted name."""
    tree = _parse(name)
    definitions = _without_repeats(list(_Reader(name).definitions(tree.body)))
    return Module(name, read_docstring(ast.get_docstring(tree)), tuple(definitions))


@cache
def read_modules() -> tuple[Module, ...]:
    """Read all modules of the package but the command line and the demo."""
    paths = (path.relative_to(SOURCE) for path in sorted((SOURCE / "cloze").rglob("*.py")))
    names = (path.with_suffix("").parts for path in paths)
    left_out = {"cli", "demo", "__init__", "__main__"}
    return tuple(read_module(".".join(parts)) for parts in names if left_out.isdisjoint(parts))


@cache
def read_public(name: str) -> Definition:
    """Read a name of `import cloze`."""
    value = getattr(import_module("cloze"), name)
    if isinstance(value, type):
        return read_class(value)
    return next(found for found in read_module(PUBLIC[name]).definitions if found.name == name)


def read_class(kind: type) -> Definition:
    """Read a class; it has the members of its bases in cloze, too."""
    members: dict[str, Definition] = {}
    bases = [
        next(found for found in read_module(base.__module__).definitions if found.name == base.__name__)
        for base in kind.__mro__
        if base.__module__.startswith("cloze.")
    ]
    for member in chain.from_iterable(base.members for base in bases):
        members.setdefault(member.name.rpartition(".")[2], member)
    signature = next((base.signature for base in bases if base.signature), "")
    return replace(bases[0], signature=signature, members=tuple(members.values()))


@dataclass(frozen=True)
class _Reader:
    module: str

    def definitions(self, body: list[ast.stmt], prefix: str = "") -> Iterator[Definition]:
        for i, node in enumerate(body):
            name = _name_of(node)
            if name is None or (name.startswith("_") and not isinstance(node, ast.ClassDef)):
                continue
            following = body[i + 1] if i + 1 < len(body) else None
            if isinstance(node, ast.FunctionDef):
                yield self._function(node, prefix)
            elif isinstance(node, ast.ClassDef):
                yield self._class(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                text = _bare_string(following)
                if text is not None or (prefix and isinstance(node, ast.AnnAssign)):
                    yield self._variable(node, name, prefix, text)

    def _function(self, node: ast.FunctionDef, prefix: str) -> Definition:
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        is_property = bool(decorators & {"property", "cached_property", "functools.cached_property"})
        returns = None if node.returns is None else self._annotation(node.returns)
        kind = "function"
        if prefix:
            kind = next((name for name in decorators if name in ("classmethod", "staticmethod")), "method")
        docstring = ast.get_docstring(node)
        if any(name.startswith("checks_arguments(") for name in decorators):  # which completes it
            docstring = inspect.getdoc(attrgetter(prefix + node.name)(import_module(self.module)))
        signature = "" if is_property else self._signature(node, bound=bool(prefix), returns=returns)
        return Definition(
            "property" if is_property else kind,
            self.module,
            prefix + node.name,
            signature,
            returns if is_property else None,
            None,
            read_docstring(docstring),
        )

    def _class(self, node: ast.ClassDef) -> Definition:
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        signature = self._signature(methods["__init__"], bound=True) if "__init__" in methods else ""
        members = list(self.definitions(node.body, prefix=f"{node.name}."))
        if "__call__" in methods:
            members.insert(0, self._function(methods["__call__"], f"{node.name}."))
        docstring = read_docstring(ast.get_docstring(node))
        is_exception = node.name.endswith("Error")
        kind = "exception" if is_exception else "class"
        return Definition(
            kind, self.module, node.name, signature, None, None, docstring, tuple(_without_repeats(members))
        )

    def _variable(
        self, node: ast.Assign | ast.AnnAssign, name: str, prefix: str, text: str | None
    ) -> Definition:
        annotation = None
        if isinstance(node, ast.AnnAssign):
            annotation = self._annotation(_resolve(node.annotation)[0])
        value = None if node.value is None else _short(ast.unparse(node.value))
        kind = "attribute" if prefix else "data"
        return Definition(kind, self.module, prefix + name, "", annotation, value, read_docstring(text))

    def _signature(self, node: ast.FunctionDef, *, bound: bool, returns: str | None = None) -> str:
        arguments = ast.parse(ast.unparse(node)).body[0]
        assert isinstance(arguments, ast.FunctionDef)
        parameters = arguments.args
        _expand_group(parameters, self.module)
        positional = [*parameters.posonlyargs, *parameters.args]
        if bound and positional and positional[0].arg in _PRIVATE_PARAMETERS:
            (parameters.posonlyargs or parameters.args).pop(0)
        for argument in (*positional, *parameters.kwonlyargs, parameters.vararg, parameters.kwarg):
            if argument is not None and argument.annotation is not None:
                argument.annotation = ast.parse(self._annotation(argument.annotation), mode="eval").body
        arrow = "" if returns is None else f" -> {returns}"
        return f"({ast.unparse(parameters)}){arrow}"

    def _annotation(self, node: ast.expr) -> str:
        """Return a type with dotted names, so that the site can link to it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = ast.parse(node.value, mode="eval").body
        copy = ast.parse(ast.unparse(node), mode="eval")
        return ast.unparse(_Qualify().visit(copy).body)


def _expand_group(parameters: ast.arguments, module: str) -> None:
    """Replace `**options: Unpack[GROUP]` by the keywords of a group, and aliases in `cloze.options` by types."""
    for argument in (*parameters.args, *parameters.kwonlyargs):
        if argument.annotation is not None:
            argument.annotation = _resolve(argument.annotation)[0]
    group = parameters.kwarg and parameters.kwarg.annotation
    if isinstance(group, ast.Subscript) and ast.unparse(group.value) == "Unpack":
        parameters.kwarg = None
        for name, annotation in _fields(ast.unparse(group.slice), module).items():
            kind, default = _resolve(annotation)
            parameters.kwonlyargs.append(ast.arg(name, kind))
            parameters.kw_defaults.append(default)


def _resolve(annotation: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Return the type that an annotation or an alias in `cloze.options` stands for, and the default."""
    if isinstance(annotation, ast.Name):
        for node in _parse(_OPTIONS).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == annotation.id and node.value:
                return _resolve(node.value)
    match annotation:
        case ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, ast.Constant(str()), *default])):
            return kind, default[0] if default else ast.Constant(None)
    return annotation, ast.Constant(None)


def _fields(group: str, module: str) -> dict[str, ast.expr]:
    """Return the annotations of the keywords of a group and its bases by name."""
    nodes = [node for name in (*_GROUPS, module) for node in _parse(name).body]
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
    fields: dict[str, ast.expr] = {}
    if group in classes:
        for base in classes[group].bases:
            fields |= _fields(ast.unparse(base), module)
        annotated = (node for node in classes[group].body if isinstance(node, ast.AnnAssign))
        fields |= {ast.unparse(node.target): node.annotation for node in annotated}
    return fields


class _Qualify(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in _choices():
            return self.visit(ast.parse(_choices()[node.id], mode="eval").body)
        return ast.parse(f"cloze.{node.id}", mode="eval").body if node.id in PUBLIC else node


@cache
def _choices() -> dict[str, str]:
    """Return the aliases of `cloze.choices`, which stand for the values that a setting may have."""
    aliases = (node for node in _parse("cloze.choices").body if isinstance(node, ast.AnnAssign))
    return {ast.unparse(node.target): ast.unparse(node.value) for node in aliases if node.value}


@cache
def _parse(module: str) -> ast.Module:
    path = SOURCE / Path(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text("utf-8"))


def _name_of(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else None


def _bare_string(node: ast.stmt | None) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


def _without_repeats(members: list[Definition]) -> Iterator[Definition]:
    """Keep the last definition of each name: overloads and property setters repeat names."""
    last = {member.name: member for member in members}
    yield from last.values()


def _short(value: str, max_length: int = 60) -> str | None:
    return value if len(value) <= max_length and "\n" not in value else None
