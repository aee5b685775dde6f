"""What `import cloze` offers, and what it costs."""

import subprocess
import sys

import pytest

import cloze


@pytest.mark.parametrize("name", cloze.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert getattr(cloze, name).__doc__


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = cloze.Nonsense


def test_importing_and_asking_for_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from cloze.cli import main; assert main(['--help']) == 0; "
        "heavy = {'torch', 'pyarrow', 'numpy', 'tokenizers', 'tyro', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pretrain" in done.stdout
