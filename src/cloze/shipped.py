"""Models that come with cloze, each in a directory of its name in `models`: cloze-mini."""

from pathlib import Path

_MODELS = Path(__file__).parent / "models"


def find_shipped(path: Path | str) -> Path:
    """Return the directory of the model that comes with cloze under this name, else the path as it is.

    What is there under that name already goes before it.
    """
    path = Path(path)
    shipped = _MODELS / path.name
    is_name = path.parts == (path.name,)
    return shipped if is_name and not path.exists() and (shipped / "config.json").is_file() else path
