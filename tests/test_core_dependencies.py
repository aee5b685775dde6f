"""The packages that `pip install cloze-bert` brings are enough for all but the extras."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = ("google_crc32c", "matplotlib", "scipy", "sklearn", "transformers")
RUN_VERBS = f"""
import sys
import tomllib
sys.modules |= dict.fromkeys({BLOCKED!r})  # an import of one fails
from cloze.cli import main
for verb in sys.argv[1:]:
    assert main(verb.split()) == 0, verb
"""


@pytest.mark.slow
def test_a_data_set_is_built_and_audited_with_the_core_alone(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The sun rose. The birds began to sing.\n\nA cat slept.\n" * 10)
    verbs = [
        "corpus text.txt --vocabulary cloze-mini -o data --workers 1",
        "corpus audit data -o audit.html",
        "import cloze-mini -o model",
        "attention -m cloze-mini Birds -o attention.html",
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN_VERBS, *verbs],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Tokens per sentence" in (tmp_path / "audit.html").read_text("utf-8")
