"""What is in a data set, and what training will draw from it: measured, with the value that was meant beside it.

Counts, lengths and copies are taken over a whole split, a stretch at a time. Pairs are judged over a whole epoch's
plan; masks on its first instances, which are as good as any, since the order of an epoch is drawn.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cloze.corpus.audit_instances import Drawn, Shown, measure_instances, show_instances
from cloze.corpus.audit_text import (
    Copies,
    Counts,
    Distribution,
    count_pieces,
    digest_sentences,
    find_copies,
    held_out_seen,
    magnitudes,
    measure_lengths,
    spread,
)
from cloze.corpus.batches import DrawnInstances
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.corpus.store import REPORT, Dataset, Split
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

_LEAST_SEQ_LENGTH = 8
_MOST_FREQUENT = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditConfig:
    """What is looked at, and what training is assumed to ask for; the defaults are the paper's."""

    split: Split = "train"
    seq_lengths: tuple[int, ...] = (128, 512)
    """Of the phases of the training, in their order."""
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 12345
    sample: int = 100_000
    """Instances of each length on which masks are measured, at most."""
    shown: int = 20
    """Instances of the first length that are shown in full."""

    def __post_init__(self) -> None:
        if not self.seq_lengths or min(self.seq_lengths) < _LEAST_SEQ_LENGTH:
            raise InputError(
                f"sequences of {', '.join(map(str, self.seq_lengths)) or 'no'} tokens",
                where="--seq-length",
                remedy=f"Take {_LEAST_SEQ_LENGTH} or more",
            )
        if self.sample < 1:
            raise InputError(
                f"a sample of {self.sample} instances", where="--sample", remedy="Take one or more"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """All that was found."""

    dataset: str
    split: Split
    counts: Counts
    sentence_pieces: Distribution
    document_sentences: Distribution
    document_pieces: Distribution
    largest_share: float
    """Of the pieces, those of the largest document."""
    copies: tuple[Copies, ...]
    held_out_seen: float | None
    """Of the held-out sentences of `LONG_SENTENCE` pieces or more, the share that stands in training, too."""
    drawn: tuple[Drawn, ...]
    frequent_pieces: tuple[tuple[str, int], ...]
    counts_at_ranks: tuple[tuple[int, int], ...]
    """Of the most frequent piece, the second, third, fourth, sixth and so on: the rank, and how often it occurs."""
    shown: tuple[Shown, ...]
    cleaning: Mapping[str, Any] | None
    """What `report.json` of the data set says."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        table = asdict(self)
        for drawn, row in zip(self.drawn, table["drawn"], strict=True):
            for measure, entry in zip(drawn.measures, row["measures"], strict=True):
                entry["holds"] = measure.holds
        return table


def audit_dataset(dataset: Dataset, config: AuditConfig, *, progress: Progress = SILENT) -> Audit:
    """Measure a split of a data set, and what training will draw from it: no pairs, where it would refuse to.

    Raises:
        InputError: the split is empty.
    """
    documents = dataset.split(config.split)
    if not len(documents):
        what, remedy = (
            f"no document in the {config.split} split",
            "Of two documents that differ one is held out",
        )
        raise InputError(what, where=dataset.path, remedy=remedy)
    tokenizer, pairs = Tokenizer.load(dataset.path), config.pairs
    if not dataset.makes_pairs:
        pairs = replace(pairs, next_sentence=False)
    sources = [
        DrawnInstances(
            documents,
            tokenizer,
            max_seq_length=length,
            max_predictions_per_seq=math.ceil(config.masking.masked_lm_prob * length),
            pairs=pairs,
            masking=config.masking,
            seed=config.seed,
            phase=phase,
        )
        for phase, length in enumerate(config.seq_lengths)
    ]
    drawn = tuple(measure_instances(source, config.sample, progress) for source in sources)
    lengths = measure_lengths(documents)
    digests = digest_sentences(documents, lengths, progress)
    piece_counts = documents.piece_counts(dataset.vocab_size)
    by_count = np.argsort(-piece_counts, kind="stable")
    ranks = magnitudes(int((piece_counts > 0).sum()))
    return Audit(
        dataset=str(dataset.path),
        split=config.split,
        counts=count_pieces(lengths, piece_counts, tokenizer),
        sentence_pieces=spread(lengths.sentence_pieces),
        document_sentences=spread(lengths.document_sentences),
        document_pieces=spread(lengths.document_pieces),
        largest_share=documents.largest_share,
        copies=find_copies(documents, lengths, digests, tokenizer),
        held_out_seen=held_out_seen(dataset, config.split, lengths, digests, progress),
        drawn=drawn,
        frequent_pieces=tuple(
            (tokenizer.pieces[piece], int(piece_counts[piece])) for piece in by_count[:_MOST_FREQUENT]
        ),
        counts_at_ranks=tuple((int(rank), int(piece_counts[by_count[rank - 1]])) for rank in ranks),
        shown=tuple(show_instances(sources[0], dataset.documents, config.shown)),
        cleaning=_read_cleaning(dataset.path / REPORT),
    )


def _read_cleaning(file: Path) -> Mapping[str, Any] | None:
    try:
        table = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", where=file, remedy="Build the data set anew") from error
    return table if isinstance(table, dict) else None
