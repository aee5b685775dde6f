"""The tables in examples/ are what their script writes."""

import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.append(str(EXAMPLES))


@pytest.mark.exhaustive
def test_examples_are_up_to_date(tmp_path: Path) -> None:
    from make_examples import main

    main(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in EXAMPLES.glob("*.csv")}
