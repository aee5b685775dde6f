"""The optional packages that some scores are computed with."""

from collections.abc import Iterable
from importlib.util import find_spec

from cloze.errors import InputError


def require(packages: Iterable[str], *, what: str = "its score") -> None:
    """Refuse to begin what could not be scored at its end.

    Args:
        packages: their names on import.
        what: what is computed with them.

    Raises:
        InputError: a package is not installed.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        problem = f"{what} is computed with {missing[0]}, which is not installed"
        raise InputError(problem, remedy="Say pip install 'cloze-bert[tasks]'")
