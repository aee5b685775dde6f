"""`cloze vocab`: learn a WordPiece vocabulary from text."""

from cloze.cli.common import Corpus, Flags, Output, default_workers


def run(
    corpus: Corpus,
    /,
    *,
    output: Output,
    size: int = 30_522,
    cased: bool = False,
    workers: int = default_workers(),
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Learn a WordPiece vocabulary from text: the same bytes from the same text, whatever the workers.

    Args:
        corpus: text files, folders or globs, plain or compressed; - is stdin.
        output: directory for vocab.txt and the tokenizer.
        size: word pieces, special ones included.
        cased: keep upper case and accents.
        workers: processes.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.corpus.vocabulary import train_vocabulary

    train_vocabulary(
        corpus,
        output,
        size=size,
        lowercase=not cased,
        workers=workers,
        overwrite=overwrite,
        progress=flags.progress,
    )
    flags.print({"directory": str(output)}, f"wrote {output}")
