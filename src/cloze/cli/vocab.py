"""`cloze vocab`: learn a WordPiece vocabulary from text."""

from pathlib import Path

from cloze.cli.common import Corpus, Flags, OptionalOutputPlace, PoolFlags, required
from cloze.cli.reading import ReadingOrLookFlags, look


def run(
    corpus: Corpus,
    /,
    *,
    output: OptionalOutputPlace = None,
    reading: ReadingOrLookFlags,
    size: int = 30_522,
    cased: bool = False,
    pool: PoolFlags,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Learn a WordPiece vocabulary from text: the same bytes from the same text, whatever the workers.

    Args:
        corpus: text files, folders or globs, plain or compressed; - is stdin.
        output: directory for vocab.txt and the tokenizer, or a URL such as s3://bucket/vocab (required).
        reading: what the text files hold.
        size: word pieces, special ones included.
        cased: keep upper case and accents.
        pool: where the work is done.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    if reading.dry_run or reading.validate:
        look(corpus, reading, workers=pool(), flags=flags)
        return
    from cloze.corpus.inputs import versions_of
    from cloze.corpus.vocabulary import train_vocabulary, versions
    from cloze.stores import cache_directory, write_to

    output = required(output, "--output", verb="vocab")

    def write(directory: Path) -> None:
        train_vocabulary(
            corpus,
            directory,
            reading=reading.config,
            size=size,
            lowercase=not cased,
            workers=pool(),
            overwrite=overwrite,
            progress=flags.progress,
        )

    def asked() -> object:
        return versions_of(corpus), reading.config, size, cased, versions()

    write_to(output, write, asked=asked, room=cache_directory(), overwrite=overwrite)
    flags.print({"directory": output}, f"wrote {output}")
