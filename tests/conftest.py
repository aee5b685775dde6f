"""Fixtures that many tests share."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data and golden files that are too large or not licensed to be copied into the repository."""
    path = Path(os.environ.get("CLOZE_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip("needs CLOZE_SHARED, the directory of real data")
    return path
