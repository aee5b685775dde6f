"""What is in a data set, and what training will draw from it: measured, with the value that was meant beside it.

Counts, lengths and copies are taken over a whole split, a stretch at a time. Pairs are judged over a whole epoch's
plan; masks on its first instances, which are as good as any, since the order of an epoch is drawn.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cloze.corpus.batches import DrawnInstances, PackedBatch
from cloze.corpus.hashing import mix
from cloze.corpus.masking import MaskingConfig, predictions_due
from cloze.corpus.pairs import PairsConfig
from cloze.corpus.seal import REPORT
from cloze.corpus.store import Dataset, Documents, Split
from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

LONG_SENTENCE = 20
"""Pieces from which on a sentence that stands twice is hardly there by chance."""

_PIECES_AT_ONCE = 1 << 17
_INSTANCES_AT_ONCE = 1024
_LEAST_SEQ_LENGTH = 8
_MOST_REPEATED = 10
_MOST_FREQUENT = 50
_EXCERPT_PIECES = 40
_LABELS: Mapping[int, Literal["IsNext", "NotNext"]] = {0: "IsNext", 1: "NotNext"}
_QUANTILES = {"least": 0.0, "5%": 0.05, "25%": 0.25, "median": 0.5, "75%": 0.75, "95%": 0.95, "most": 1.0}

Integers = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]


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


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is."""

    documents: int
    sentences: int
    words: int
    """Pieces that begin a word, punctuation and [UNK] included."""
    pieces: int
    fertility: float
    """Pieces a word."""
    unknown_share: float
    """Of the pieces, those that are [UNK]."""
    vocab_size: int
    pieces_in_use: int
    """Of the vocabulary, those that occur."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of whole numbers: a mean, quantiles, and counts in bins."""

    mean: float
    quantiles: dict[str, int]
    bin_starts: tuple[int, ...]
    bin_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copies:
    """Texts that stand in the split more than once."""

    of: str
    number: int
    """Of all such texts."""
    copies: int
    """Of these, those that stood there before."""
    share_of_pieces: float
    """Of the pieces of all such texts, those in copies."""
    most_repeated: tuple[tuple[str, int], ...]
    """Beginnings, and how often each stands there."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure, and what it should be if it should be anything."""

    name: str
    measured: float
    unit: Literal["share", "pieces"]
    expected: float | None = None
    tolerance: float = 0.0
    """How far chance or rounding may take it."""

    @property
    def holds(self) -> bool:
        """Whether the figure is what it should be."""
        return self.expected is None or abs(self.measured - self.expected) <= self.tolerance + 1e-9


@dataclass(frozen=True, slots=True)
class Drawn:
    """The instances of one length, as the training's first epoch draws them."""

    max_seq_length: int
    max_predictions_per_seq: int | None
    instances: int
    sampled: int
    skipped_documents: int
    """Of one sentence, which has no next."""
    lengths: Distribution
    measures: tuple[Measure, ...]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece as the model reads it, and what it is to predict there."""

    read: str
    target: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """An instance for a person to read."""

    position: int
    label: Literal["IsNext", "NotNext"] | None
    documents: tuple[int, ...]
    """From which each segment comes, by number in the data set, from 0."""
    segments: tuple[tuple[Token, ...], ...]
    """Without [CLS] and [SEP]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """All that was found."""

    dataset: str
    split: Split
    counts: Counts
    sentence_pieces: Distribution
    document_sentences: Distribution
    document_pieces: Distribution
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
    """Measure a split of a data set, and what training will draw from it.

    Raises:
        InputError: the split is empty, or pairs are asked for and fewer than two documents have two sentences.
    """
    documents = dataset.split(config.split)
    if not len(documents):
        what, remedy = f"no document in the {config.split} split", "Four documents or more are split"
        raise InputError(what, where=dataset.path, remedy=remedy)
    tokenizer = Tokenizer.load(dataset.path)
    sources = [
        DrawnInstances(
            documents,
            tokenizer,
            max_seq_length=length,
            max_predictions_per_seq=math.ceil(config.masking.masked_lm_prob * length),
            pairs=config.pairs,
            masking=config.masking,
            seed=config.seed,
            phase=phase,
        )
        for phase, length in enumerate(config.seq_lengths)
    ]
    drawn = tuple(_measure_instances(source, config.sample, progress) for source in sources)
    lengths = _measure_lengths(documents)
    digests = _digest_sentences(documents, lengths, progress)
    piece_counts = documents.piece_counts(dataset.vocab_size)
    by_count = np.argsort(-piece_counts, kind="stable")
    ranks = _magnitudes(int((piece_counts > 0).sum()))
    return Audit(
        dataset=str(dataset.path),
        split=config.split,
        counts=_count(lengths, piece_counts, tokenizer),
        sentence_pieces=_spread(lengths.sentence_pieces),
        document_sentences=_spread(lengths.document_sentences),
        document_pieces=_spread(lengths.document_pieces),
        copies=_find_copies(documents, lengths, digests, tokenizer),
        held_out_seen=_held_out_seen(dataset, config.split, lengths, digests, progress),
        drawn=drawn,
        frequent_pieces=tuple(
            (tokenizer.pieces[piece], int(piece_counts[piece])) for piece in by_count[:_MOST_FREQUENT]
        ),
        counts_at_ranks=tuple((int(rank), int(piece_counts[by_count[rank - 1]])) for rank in ranks),
        shown=tuple(_show(sources[0], dataset.documents, config.shown)),
        cleaning=_read_cleaning(dataset.path / REPORT),
    )


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Of the sentences and the documents of a split, in its order; where a sentence begins is counted over all."""

    sentence_starts: Integers
    sentence_pieces: Integers
    document_starts: Integers
    document_pieces: Integers
    document_sentences: Integers


def _measure_lengths(documents: Documents) -> _Lengths:
    first, count = documents.first_sentence, documents.end_sentence - documents.first_sentence
    sentences = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    bounds = documents.sentence_offsets
    return _Lengths(
        sentence_starts=bounds[sentences],
        sentence_pieces=bounds[sentences + 1] - bounds[sentences],
        document_starts=bounds[first],
        document_pieces=bounds[documents.end_sentence] - bounds[first],
        document_sentences=count,
    )


def _count(lengths: _Lengths, piece_counts: Integers, tokenizer: Tokenizer) -> Counts:
    pieces, words = int(piece_counts.sum()), int(piece_counts[~tokenizer.is_continuation].sum())
    return Counts(
        documents=len(lengths.document_pieces),
        sentences=len(lengths.sentence_pieces),
        words=words,
        pieces=pieces,
        fertility=pieces / max(words, 1),
        unknown_share=int(piece_counts[tokenizer.unk_id]) / max(pieces, 1),
        vocab_size=tokenizer.vocab_size,
        pieces_in_use=int((piece_counts > 0).sum()),
    )


def _magnitudes(most: int) -> Integers:
    """Return 1, 2, 3, 4, 6, 8, 11, 16, 23, 32 and so on, each about 1.4 of the one before, up to `most`."""
    halves = np.arange(2 * most.bit_length())
    return np.unique(np.rint(2 ** (halves / 2)).astype(np.int64).clip(max=most))


def _spread(values: Integers) -> Distribution:
    """Count lengths of every magnitude."""
    return _distribution(values, _magnitudes(int(values.max())))


def _distribution(values: Integers, bin_starts: Integers) -> Distribution:
    most = int(values.max())
    bin_starts = bin_starts[bin_starts <= most]
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="lower").astype(int)
    return Distribution(
        mean=float(values.mean()),
        quantiles=dict(zip(_QUANTILES, quantiles.tolist(), strict=True)),
        bin_starts=tuple(bin_starts.tolist()),
        bin_counts=tuple(np.histogram(values, [*bin_starts, most + 1])[0].tolist()),
    )


def _digest_sentences(documents: Documents, lengths: _Lengths, progress: Progress) -> Digests:
    """Return 64 bits for each sentence, the same for the same pieces."""
    ends = np.cumsum(lengths.sentence_pieces)
    digests = np.empty(len(ends), np.uint64)
    start = 0
    with progress.bar("comparing sentences", total=int(ends[-1]), unit="pieces") as bar:
        while start < len(ends):
            read = ends[start - 1] if start else 0
            end = max(start + 1, int(np.searchsorted(ends, read + _PIECES_AT_ONCE, side="right")))
            pieces = lengths.sentence_pieces[start:end]
            text = documents.gather(lengths.sentence_starts[start:end], pieces)
            place = np.arange(len(text)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
            digests[start:end] = mix(_sums(mix((place << 32) | text), pieces))
            bar.advance(len(text))
            start = end
    return digests


def _sums(values: Digests, counts: Integers) -> Digests:
    """Add up runs of so many values, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    ends = np.cumsum(counts)
    sums: Digests = total[ends] - total[ends - counts]
    return sums


def _find_copies(
    documents: Documents, lengths: _Lengths, sentence_digests: Digests, tokenizer: Tokenizer
) -> tuple[Copies, ...]:
    counts = lengths.document_sentences
    place = np.arange(len(sentence_digests)) - np.repeat(np.cumsum(counts) - counts, counts)
    document_digests = mix(_sums(mix(place, after=sentence_digests), counts))

    def find(of: str, digests: Digests, starts: Integers, pieces: Integers) -> Copies:
        _, first, times = np.unique(digests, return_index=True, return_counts=True)
        repeated = [i for i in np.argsort(-times, kind="stable")[:_MOST_REPEATED].tolist() if times[i] > 1]
        return Copies(
            of=of,
            number=len(digests),
            copies=len(digests) - len(first),
            share_of_pieces=1 - int(pieces[first].sum()) / max(int(pieces.sum()), 1),
            most_repeated=tuple(
                (_beginning(documents, tokenizer, starts[first[i]], pieces[first[i]]), int(times[i]))
                for i in repeated
            ),
        )

    starts, pieces = lengths.sentence_starts, lengths.sentence_pieces
    is_long = pieces >= LONG_SENTENCE
    return (
        find("sentences", sentence_digests, starts, pieces),
        find(
            f"sentences of {LONG_SENTENCE} pieces or more",
            sentence_digests[is_long],
            starts[is_long],
            pieces[is_long],
        ),
        find("documents", document_digests, lengths.document_starts, lengths.document_pieces),
    )


def _beginning(documents: Documents, tokenizer: Tokenizer, start: int, pieces: int) -> str:
    text = tokenizer.decode(documents.read(start, start + min(pieces, _EXCERPT_PIECES)).tolist())
    return text + " …" if pieces > _EXCERPT_PIECES else text


def _held_out_seen(
    dataset: Dataset, split: Split, lengths: _Lengths, digests: Digests, progress: Progress
) -> float | None:
    documents = dataset.split("validation" if split == "train" else "train")
    if not len(documents):
        return None
    other = _measure_lengths(documents)
    other_digests = _digest_sentences(documents, other, progress)
    here = digests[lengths.sentence_pieces >= LONG_SENTENCE]
    there = other_digests[other.sentence_pieces >= LONG_SENTENCE]
    training, held_out = (here, there) if split == "train" else (there, here)
    return float(np.isin(held_out, training).mean()) if len(held_out) else None


def _measure_instances(source: DrawnInstances, sample: int, progress: Progress) -> Drawn:
    sampled = min(sample, source.num_instances(0))
    if not sampled:
        raise InputError("makes no instance", where="corpus", remedy="Give more text")
    rows, hidden, kept = [], 0, 0
    with progress.bar(f"drawing {source.max_seq_length} tokens", total=sampled, unit="instances") as bar:
        for start in range(0, sampled, _INSTANCES_AT_ONCE):
            positions = np.arange(start, min(start + _INSTANCES_AT_ONCE, sampled))
            batch = source.batch(0, positions)
            read = batch.input_ids[batch.masked_lm_positions]
            hidden += int((read == source.tokenizer.mask_id).sum())
            kept += int((read == batch.masked_lm_ids).sum())
            rows.append(_describe_sequences(batch))
            bar.advance(len(positions))
    sequences = _Sequences(*np.concatenate(rows, axis=1))
    measures = _judge_lengths(source, sequences)
    if source.pairs.next_sentence:
        measures += _judge_pairs(source, sequences)
    measures += _judge_masks(source, sequences, hidden, kept)
    step = max(1, source.max_seq_length // 16)
    return Drawn(
        max_seq_length=source.max_seq_length,
        max_predictions_per_seq=source.max_predictions_per_seq,
        instances=source.num_instances(0),
        sampled=sampled,
        skipped_documents=source.plan(0).num_skipped_documents,
        lengths=_distribution(sequences.tokens, np.arange(1, source.max_seq_length + 1, step)),
        measures=tuple(measures),
    )


@dataclass(frozen=True, slots=True)
class _Sequences:
    """Of the sampled instances, in any order."""

    tokens: Integers
    b_pieces: Integers
    predictions: Integers
    labels: Integers


def _describe_sequences(batch: PackedBatch) -> Integers:
    """Return the fields of `_Sequences`, one a row."""
    starts = batch.cu_seqlens[:-1]
    return np.stack(
        [
            np.diff(batch.cu_seqlens),
            np.add.reduceat(batch.token_type_ids, starts) - 1,
            np.diff(np.searchsorted(batch.masked_lm_positions, batch.cu_seqlens)),
            batch.next_sentence_labels,
        ]
    )


def _judge_lengths(source: DrawnInstances, sequences: _Sequences) -> list[Measure]:
    plan, room = source.plan(0), source.max_seq_length
    number, special = len(sequences.tokens), 3 if source.pairs.next_sentence else 2
    planned = int((plan.a_end - plan.a_start + plan.b_end - plan.b_start)[:number].sum())
    kept = int(sequences.tokens.sum()) - special * number
    return [
        Measure("places filled", float(sequences.tokens.mean()) / room, "share"),
        Measure("sequences of full length", float((sequences.tokens == room).mean()), "share"),
        Measure("pieces cut off to fit", 1 - kept / planned, "share"),
    ]


def _judge_pairs(source: DrawnInstances, sequences: _Sequences) -> list[Measure]:
    """Measure labels and partners on the whole plan, lengths on the sample."""
    plan, documents = source.plan(0), source.documents
    starts = documents.sentence_offsets[documents.first_sentence]
    is_random = plan.next_sentence_labels == 1
    document_a, document_b = (np.searchsorted(starts, s, side="right") for s in (plan.a_start, plan.b_start))
    own = document_a == document_b
    follows = plan.a_end == plan.b_start
    number = len(sequences.tokens)
    chance = math.sqrt(source.max_seq_length / number)  # of so many lengths, each a little uneven

    def guess(lengths: Integers) -> float:
        cells = np.zeros((int(lengths.max()) + 1, 2), np.int64)
        np.add.at(cells, (lengths, sequences.labels), 1)
        return float(cells.max(axis=1).sum()) / number

    return [
        Measure("pairs with a random B (NotNext)", float(is_random.mean()), "share", 0.5, 1 / len(plan)),
        Measure("random Bs from the document of A", _share(own[is_random]), "share", 0.0),
        Measure("other Bs that follow their A", _share(follows[~is_random]), "share", 1.0),
        Measure("labels guessed right from the length", guess(sequences.tokens), "share", 0.5, chance),
        Measure("labels guessed right from B's length", guess(sequences.b_pieces), "share", 0.5, chance),
    ]


def _judge_masks(source: DrawnInstances, sequences: _Sequences, hidden: int, kept: int) -> list[Measure]:
    config, most, vocab_size = source.masking, source.max_predictions_per_seq, source.tokenizer.vocab_size
    number = int(sequences.predictions.sum())
    quota = predictions_due(sequences.tokens, config, most)
    uncapped = predictions_due(sequences.tokens, config, None)
    # A random piece is any of the vocabulary: [MASK], too, and the one that stood there.
    same = config.random_token_prob / vocab_size
    to_mask, to_random = config.mask_token_prob, config.random_token_prob

    def replaced(name: str, count: int, prob: float) -> Measure:
        tolerance = 4 * math.sqrt(prob * (1 - prob) / number)
        return Measure(f"of these, {name}", count / number, "share", prob, tolerance)

    # Whole numbers are predicted; and words may not fill what they were given.
    rounding, unfilled = 0.5, 0.5 if config.whole_word else 0.0
    length, mean = float(sequences.tokens.mean()), float(sequences.predictions.mean())
    return [
        Measure(
            "places predicted", mean / length, "share", config.masked_lm_prob, (rounding + unfilled) / length
        ),
        Measure("predictions a sequence", mean, "pieces", float(quota.mean()), unfilled),
        Measure("sequences with fewer for the cap's sake", float((quota < uncapped).mean()), "share"),
        replaced("replaced by [MASK]", hidden, to_mask + same),
        replaced("replaced by a random piece", number - hidden - kept, to_random - 2 * same),
        replaced("left as they are", kept, 1 - to_mask - to_random + same),
    ]


def _share(flags: npt.NDArray[np.bool_]) -> float:
    return float(flags.mean()) if len(flags) else 0.0


def _show(source: DrawnInstances, every: Documents, count: int) -> Iterator[Shown]:
    plan, pieces = source.plan(0), source.tokenizer.pieces
    document_starts = every.sentence_offsets[every.first_sentence]
    for position in range(min(count, len(plan))):
        batch = source.batch(0, np.array([position]))
        targets = dict(zip(batch.masked_lm_positions.tolist(), batch.masked_lm_ids.tolist(), strict=True))
        tokens = [
            Token(pieces[piece], pieces[targets[place]] if place in targets else None)
            for place, piece in enumerate(batch.input_ids.tolist())
        ]
        first_of_b = int((batch.token_type_ids == 0).sum())
        segments, starts = [tokens[1 : first_of_b - 1]], [plan.a_start[position]]
        if source.pairs.next_sentence:
            segments.append(tokens[first_of_b:-1])
            starts.append(plan.b_start[position])
        yield Shown(
            position,
            _LABELS[int(plan.next_sentence_labels[position])] if source.pairs.next_sentence else None,
            tuple((np.searchsorted(document_starts, starts, side="right") - 1).tolist()),
            tuple(map(tuple, segments)),
        )


def _read_cleaning(file: Path) -> Mapping[str, Any] | None:
    try:
        table = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", where=file, remedy="Build the data set anew") from error
    return table if isinstance(table, dict) else None
