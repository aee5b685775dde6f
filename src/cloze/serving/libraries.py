"""The optional packages that the server is made of."""

from importlib.util import find_spec

from cloze.errors import InputError

_PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "orjson")


def require_server() -> None:
    """Say what is missing before it is missed.

    Raises:
        InputError: a package is not installed.
    """
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        what = f"the server is made of {missing[0]}, which is not installed"
        raise InputError(what, remedy="Say pip install 'cloze-bert[serve]'")
