"""The optional packages that graphs are made and checked with."""

from importlib.util import find_spec

from cloze.errors import InputError


def require_onnx() -> None:
    """Refuse to begin what cannot be done.

    Raises:
        InputError: onnx or onnxruntime is not installed.
    """
    for package in ("onnx", "onnxruntime"):
        if find_spec(package) is None:
            remedy = "Say pip install 'cloze-bert[onnx]'"
            raise InputError(f"ONNX needs the package {package}, which is not installed", remedy=remedy)
