"""The scripts of the records: what they import from this repository exists, so that a figure can be measured again.

Nothing is imported: the symbols of a module are read from its source.
"""

import ast
import symtable
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "records"
FOLDERS = {"cloze": ROOT / "src", "benchmarks": ROOT, "experiments": ROOT}


def is_own(module: str | None) -> bool:
    return (module or "").partition(".")[0] in FOLDERS


@cache
def symbols(module: str) -> frozenset[str] | None:
    """Return the names that a module of this repository assigns or imports; None if there is no such module."""
    path = FOLDERS[module.partition(".")[0]] / module.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            table = symtable.symtable(file.read_text("utf-8"), str(file), "exec")
            return frozenset(s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported())
    return None


def exists(module: str, name: str) -> bool:
    return name in (symbols(module) or ()) or symbols(f"{module}.{name}") is not None


def missing_imports(source: str) -> Iterator[str]:
    """Yield the modules, names and attributes of modules that a script uses and that do not exist."""
    tree, modules = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for entry in filter(lambda entry: is_own(entry.name), node.names):
                modules[entry.asname or entry.name] = entry.name
                if symbols(entry.name) is None:
                    yield entry.name
        elif isinstance(node, ast.ImportFrom) and node.module and is_own(node.module):
            for entry in node.names:
                modules[entry.asname or entry.name] = f"{node.module}.{entry.name}"
                if not exists(node.module, entry.name):
                    yield f"{node.module}.{entry.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module and symbols(module) is not None and not exists(module, node.attr):
                yield f"{module}.{node.attr}"


@pytest.mark.parametrize(
    "script", sorted(RECORDS.rglob("*.py")), ids=lambda path: str(path.relative_to(RECORDS))
)
def test_the_imports_of_a_record_exist(script: Path) -> None:
    assert list(missing_imports(script.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("import cloze.corpus", ["cloze.corpus"]),
        ("from cloze.text import pieces", ["cloze.text.pieces"]),
        ("from cloze.models.bert import BertModel, Packed", ["cloze.models.bert.Packed"]),
        ("import cloze\ncloze.load, cloze.FillMasks", ["cloze.FillMasks"]),
        ("from cloze import artifacts as a\na.KIND, a.write_directory, a.MANIFEST", ["cloze.artifacts.KIND"]),
        ("import numpy\nfrom experiments.run import run_study\nnumpy.x, run_study.y", []),
    ],
)
def test_missing_imports_are_found(source: str, missing: list[str]) -> None:
    assert list(missing_imports(source)) == missing
