"""Models that come with cloze, each in a directory of its name in `models`: cloze-mini."""

from pathlib import Path

from cloze.errors import InputError

_MODELS = Path(__file__).parent / "models"


def find_shipped(path: Path | str) -> Path:
    """Return the directory of the model that comes with cloze under this name, else the path as it is.

    What is there under that name already goes before it.

    Raises:
        InputError: it is a mere name, and nothing has it.
    """
    path = Path(path)
    if path.exists() or path.parts != (path.name,):
        return path
    shipped = {file.parent.name: file.parent for file in _MODELS.glob("*/config.json")}
    if path.name not in shipped:
        remedy = f"Give a path, or a model that comes with cloze: {', '.join(sorted(shipped))}"
        raise InputError("nothing here has this name", where=path, remedy=remedy)
    return shipped[path.name]
