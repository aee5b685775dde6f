"""The scripts of the records: what they import from this repository exists, so that a figure can be measured again."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

RECORDS = Path(__file__).resolve().parents[1] / "records"
OWN = ("cloze", "benchmarks", "experiments")


def import_name(module: str, name: str) -> Any:
    """Return an attribute or a submodule.

    Raises:
        ImportError: there is neither.
    """
    try:
        return getattr(import_module(module), name)
    except AttributeError:
        return import_module(f"{module}.{name}")


def own_imports(tree: ast.Module) -> dict[str, Any]:
    """Import what a script imports from this repository; return it by its name in the script."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for entry in node.names:
                package = entry.name.partition(".")[0]
                if package in OWN:
                    module = import_module(entry.name)
                    imported[entry.asname or package] = module if entry.asname else import_module(package)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OWN:
            for entry in node.names:
                imported[entry.asname or entry.name] = import_name(str(node.module), entry.name)
    return imported


def missing_attributes(tree: ast.Module) -> list[str]:
    """Return the attributes of imported modules and classes that do not exist, as in "cloze.FillMasks"."""
    imported = {name: value for name, value in own_imports(tree).items() if hasattr(value, "__name__")}
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in imported
        and not hasattr(imported[node.value.id], node.attr)
    ]


@pytest.mark.parametrize(
    "script", sorted(RECORDS.rglob("*.py")), ids=lambda path: str(path.relative_to(RECORDS))
)
def test_the_imports_of_a_record_exist(script: Path) -> None:
    assert missing_attributes(ast.parse(script.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "line", ["import cloze.corpus", "from cloze.models import berts", "from cloze.models.bert import Packed"]
)
def test_a_missing_import_is_an_error(line: str) -> None:
    with pytest.raises(ImportError):
        own_imports(ast.parse(line))


def test_a_missing_attribute_is_found() -> None:
    script = "import cloze\nfrom cloze import artifacts\ncloze.load, cloze.FillMasks, artifacts.write_folder"
    assert missing_attributes(ast.parse(script)) == ["cloze.FillMasks", "artifacts.write_folder"]
