"""`cloze vocab`: train a WordPiece vocabulary on text."""

from cloze.api.vocabularies import train_vocabulary
from cloze.cli.parser import verb
from cloze.cli.previews import PREVIEWS


@verb(train_vocabulary, PREVIEWS)
def show(tokenizer: object, *, output: object) -> tuple[dict[str, str], str]:
    """Return the directory of the vocabulary."""
    return {"directory": str(output)}, f"wrote {output}"
