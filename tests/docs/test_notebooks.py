"""The notebooks run, and contain the outputs of a complete run."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from declared import NOTEBOOKS
from nbclient import NotebookClient

DOCS = Path(__file__).resolve().parents[2] / "docs"
PATHS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def test_all_notebooks_are_declared():
    assert {path.name for path in PATHS} == set(NOTEBOOKS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_complete_and_small(path):
    assert path.stat().st_size < 250_000
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run all cells again"
    assert sum(bool(cell.outputs) for cell in cells) > len(cells) / 2
    text = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert "Traceback" not in text
    assert "/home/" not in text + path.read_text("utf-8")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own packages
def test_notebooks_run(minilm, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name in NOTEBOOKS:
        notebook = nbformat.read(DOCS / "notebooks" / name, as_version=4)
        for words, others in NOTEBOOKS[name].items():
            (cell,) = (cell for cell in notebook.cells if words in cell.source and cell.cell_type == "code")
            cell.source = cell.source.replace(words, others)
        here = {"metadata": {"path": str(tmp_path)}}
        NotebookClient(notebook, timeout=300, kernel_name="python3", resources=here).execute()
