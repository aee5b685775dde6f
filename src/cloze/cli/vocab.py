"""`cloze vocab`: train a WordPiece vocabulary on text."""

from cloze.cli import options
from cloze.cli.reading_options import ReadingOrPreviewFlags, preview


def run(
    corpus: options.TextInputs,
    /,
    *,
    output: options.OptionalOutputPathOrUrl = None,
    reading: ReadingOrPreviewFlags,
    size: int = 30_522,
    cased: options.Switch = False,
    keep_accents: options.Switch = False,
    max_word_chars: int = 100,
    pool: options.WorkerFlags,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Train a WordPiece vocabulary on text.

    The same text gives the same bytes with any number of workers.

    Args:
        corpus: Text files, folders or globs, plain or compressed; - is stdin.
        output: Directory or URL, as in s3://bucket/vocab, of vocab.txt and the tokenizer (required).
        size: Number of tokens, with the special ones.
        cased: Keep upper case and accents.
        keep_accents: Lower-case without removing accents and the marks of scripts such as Devanagari, Thai or Korean.
        max_word_chars: Words of more characters are [UNK]. Runs of Thai, Lao or Khmer are often longer than 100.
    """
    if reading.dry_run or reading.validate:
        preview(corpus, reading, workers=pool.resolve(), flags=flags)
        return
    from cloze.api.data import train_vocabulary

    output = options.required(output, "--output", verb="vocab")
    train_vocabulary(
        corpus,
        output=output,
        size=size,
        cased=cased,
        keep_accents=keep_accents,
        max_word_chars=max_word_chars,
        **reading.keywords,
        workers=pool.resolve(),
        overwrite=overwrite,
        progress=flags.progress,
    )
    flags.print({"directory": output}, f"wrote {output}")
