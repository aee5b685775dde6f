"""`cloze corpus audit DATASET`: measure a data set and its training instances."""

from pathlib import Path
from typing import Annotated, Literal

from cloze.cli import options


def run(
    dataset: Annotated[Path, options.Flag(metavar="DATASET")],
    /,
    *,
    split: Literal["train", "validation"] = "train",
    seq_length: tuple[int, ...] = (128, 512),
    whole_word: options.Switch = False,
    sample: int = 100_000,
    output: options.OptionalOutput = None,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Measure a data set and the training instances drawn from it.

    Args:
        dataset: Data set of cloze corpus.
        split: Training documents or held-out documents.
        seq_length: Maximum number of tokens of an instance, one value per phase.
        whole_word: Mask whole words.
        sample: Maximum number of instances measured per length.
        output: HTML file with the same figures and plots.
    """
    from cloze.api.pretraining import audit
    from cloze.reports.audit_page import format_audit

    measured = audit(
        dataset,
        output,
        split=split,
        seq_lengths=seq_length,
        whole_word=whole_word,
        sample=sample,
        overwrite=overwrite,
        progress=flags.progress,
    )

    flags.print(measured.as_dict(), format_audit(measured))
