"""`cloze corpus audit DATASET`: what is in a data set, and what training will draw from it."""

from pathlib import Path
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Flags, OptionalPath


def run(
    dataset: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATASET")],
    /,
    *,
    split: Literal["train", "validation"] = "train",
    seq_length: tuple[int, ...] = (128, 512),
    whole_word: bool = False,
    sample: int = 100_000,
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Measure a data set and what training will draw from it, with the value that was meant beside each figure.

    Args:
        dataset: a data set of `cloze corpus`.
        split: the documents to train on, or those held out.
        seq_length: tokens of the instances, one number a phase.
        whole_word: mask whole words.
        sample: instances of each length on which lengths and masks are measured, at most.
        output: an HTML file for the same with pictures.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze import artifacts
    from cloze.corpus.audit import AuditConfig, audit_dataset
    from cloze.corpus.masking import MaskingConfig
    from cloze.corpus.store import Dataset

    if output is not None:
        artifacts.refuse_existing(output, overwrite=overwrite, directory=False)
    masking = MaskingConfig(whole_word=whole_word)
    config = AuditConfig(split=split, seq_lengths=seq_length, masking=masking, sample=sample)
    audit = audit_dataset(Dataset.open(dataset), config, progress=flags.progress)

    from cloze.evidence.audit import audit_as_text, write_audit_page

    if output is not None:
        write_audit_page(audit, output, overwrite=overwrite)
    flags.print(audit.as_dict(), audit_as_text(audit))
