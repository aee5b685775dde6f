"""The packages that only an extra brings, asked for before the work that needs them."""

from collections.abc import Iterable
from importlib.util import find_spec

from cloze.errors import InputError


def require(packages: Iterable[str], *, extra: str, where: object) -> None:
    """Refuse to begin what could not be finished.

    Args:
        packages: their names on import.
        extra: which of cloze's extras installs them.
        where: what needs them: a file, a setting, a piece of work.

    Raises:
        InputError: a package is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            remedy = f"Say pip install 'cloze-bert[{extra}]'"
            raise InputError(f"needs the package {package}", where=where, remedy=remedy)
