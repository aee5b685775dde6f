"""The names of `import cloze`, and its import time."""

import subprocess
import sys

import pytest

import cloze


@pytest.mark.parametrize("name", cloze.__all__)
def test_public_names_exist_and_have_docstrings(name):
    assert getattr(cloze, name).__doc__


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = cloze.Nonsense


def test_import_and_help_load_no_large_packages():
    program = (
        "import sys; from cloze.cli import main; assert main(['--help']) == 0; "
        "heavy = {'torch', 'pyarrow', 'numpy', 'tokenizers', 'cyclopts', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pretrain" in done.stdout


def test_the_result_of_a_build_is_a_table_in_a_notebook() -> None:
    assert "<th>documents</th><td>3</td>" in cloze.BuildSummary(documents=3)._repr_html_()
