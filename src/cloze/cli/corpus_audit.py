"""`cloze corpus audit DATASET`: measure a data set and its training instances."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from cloze.cli import options


def run(
    dataset: Annotated[Positional[Path], arg(metavar="DATASET")],
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
    from cloze import artifacts
    from cloze.data.audit import AuditConfig, audit_dataset
    from cloze.data.dataset import Dataset
    from cloze.data.masking import MaskingConfig

    if output is not None:
        artifacts.check_output_path(output, overwrite=overwrite, directory=False)
    masking = MaskingConfig(whole_word=whole_word)
    config = AuditConfig(split=split, seq_lengths=seq_length, masking=masking, sample=sample)
    audit = audit_dataset(Dataset.open(dataset), config, progress=flags.progress)

    from cloze.reports.audit_page import format_audit, write_audit_page  # takes long to import

    if output is not None:
        write_audit_page(audit, output, overwrite=overwrite)
    flags.print(audit.as_dict(), format_audit(audit))
