"""`cloze corpus`: tokenise text once into a data set on disk."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Corpus, Flags, Output, default_workers


def run(
    corpus: Corpus,
    /,
    *,
    vocab: Annotated[Path, tyro.conf.arg(help_behavior_hint="(required)")],
    output: Output,
    text_format: Annotated[Literal["auto", "sentences", "paragraphs"], tyro.conf.arg(name="format")] = "auto",
    language: Annotated[str, tyro.conf.arg(metavar="CODE")] = "en",
    validation_fraction: float = 0.005,
    workers: int = default_workers(),
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Tokenise text once into a data set on disk. The same text gives the same bytes, whatever the workers.

    Args:
        corpus: text files, folders or globs, plain or compressed; - is stdin.
        vocab: directory of the vocabulary, or of any model with a tokenizer.
        output: directory of the data set.
        text_format: a sentence a line or a paragraph a line, a blank line between documents.
        language: how paragraphs are split into sentences, as an ISO code.
        validation_fraction: share of the documents held out from training.
        workers: processes.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from dataclasses import asdict

    from cloze.corpus.build import build_dataset
    from cloze.corpus.sources import ReadingConfig

    summary = build_dataset(
        corpus,
        vocab,
        output,
        reading=ReadingConfig(text_format=text_format),
        language=language,
        validation_fraction=validation_fraction,
        workers=workers,
        overwrite=overwrite,
        progress=flags.progress,
    )
    result = asdict(summary)
    counts = ", ".join(f"{value:,} {name}" for name, value in result.items() if isinstance(value, int))
    flags.print({"directory": str(output), **result}, f"wrote {output}: {counts}")
