"""Check that the packages of an extra are installed."""

from collections.abc import Iterable
from importlib.util import find_spec

from cloze.errors import InputError


def require(packages: Iterable[str], *, extra: str, where: object) -> None:
    """Raise if a package is not installed; call it before work that would fail later.

    Args:
        packages: names to import.
        extra: the extra of cloze-bert that installs them.
        where: the file, setting or command that needs them, for the message.

    Raises:
        InputError: a package is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            remedy = f"Run pip install 'cloze-bert[{extra}]'"
            raise InputError(f"needs the package {package}", where=where, remedy=remedy)
