"""The audit of a data set equals a plain recount, and reports deviations."""

import json
import random
from collections import Counter
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import cloze
from cloze.data.audit import AuditConfig, Measure, audit_dataset
from cloze.data.build.corpus import build_dataset
from cloze.data.build.parts import BuildConfig
from cloze.data.dataset import Dataset
from cloze.data.instances import instances as batches
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.tokenization.loading import load_tokenizer
from corpora import rows_of

SMALL = AuditConfig(seq_lengths=(32, 64), sample=10_000)
SEED = 12345


def write_text(file: Path) -> None:
    """Documents of few to many sentences, with unknown words and documents that are there twice."""
    rng = random.Random(7)
    words = [*(f"w{i}" for i in range(100) if i % 3 != 2), "w0w2", "w3w5w8", "zzz"]
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(1, 25))) for _ in range(rng.randint(1, 40))]
        for _ in range(60)
    ]
    documents += [[line.upper() for line in document] for document in documents[:5]]  # the same tokens
    file.write_text("\n\n".join("\n".join(lines) for lines in documents))


def build(tokenizer: cloze.Tokenizer, directory: Path) -> Dataset:
    (directory / "vocabulary").mkdir()
    tokenizer.save(directory / "vocabulary")
    config = BuildConfig(validation_fraction=0.2)
    build_dataset([directory / "text.txt"], directory / "vocabulary", directory / "data", config)
    return Dataset.open(directory / "data")


@pytest.fixture(scope="module")
def dataset(tokenizer, tmp_path_factory) -> Dataset:
    directory = tmp_path_factory.mktemp("audited")
    write_text(directory / "text.txt")
    return build(tokenizer, directory)


@pytest.fixture(scope="module")
def audit(dataset):
    return audit_dataset(dataset, SMALL)


def split_rows(dataset: Dataset, split: str) -> list[list[tuple[int, ...]]]:
    return [list(map(tuple, row)) for row in rows_of(dataset.split(split))]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_counts(dataset, tokenizer, split):
    stats = audit_dataset(dataset, replace(SMALL, split=split)).counts
    rows = split_rows(dataset, split)
    ids = [token_id for row in rows for sentence in row for token_id in sentence]
    names = [tokenizer.tokens[token_id] for token_id in ids]
    words = sum(not name.startswith("##") for name in names)
    assert asdict(stats) == {
        "documents": len(rows),
        "sentences": sum(map(len, rows)),
        "words": words,
        "tokens": len(ids),
        "fertility": len(ids) / words,
        "unknown_share": names.count("[UNK]") / len(ids),
        "vocab_size": 105,
        "tokens_in_use": len(set(ids)),
    }


def test_lengths(dataset, audit):
    rows = split_rows(dataset, "train")
    for stats, values in (
        (audit.sentence_tokens, [len(sentence) for row in rows for sentence in row]),
        (audit.document_sentences, [len(row) for row in rows]),
        (audit.document_tokens, [sum(map(len, row)) for row in rows]),
    ):
        values.sort()
        assert stats.mean == pytest.approx(np.mean(values))
        assert stats.quantiles["least"] == values[0]
        assert stats.quantiles["median"] == values[(len(values) - 1) // 2]
        assert stats.quantiles["most"] == values[-1]
        starts = [*stats.bin_starts, values[-1] + 1]
        assert starts[0] == 1
        expected = [sum(start <= value < end for value in values) for start, end in pairwise(starts)]
        assert list(stats.bin_counts) == expected


def test_frequent_tokens(dataset, audit, tokenizer):
    counts = Counter(token for row in split_rows(dataset, "train") for sentence in row for token in sentence)
    assert [n for _, n in audit.frequent_tokens] == [n for _, n in counts.most_common(50)]
    assert all(counts[tokenizer.tokens.index(token)] == n for token, n in audit.frequent_tokens)
    ordered = [n for _, n in counts.most_common()]
    assert dict(audit.counts_at_ranks) == {rank: ordered[rank - 1] for rank, _ in audit.counts_at_ranks}
    assert [rank for rank, _ in audit.counts_at_ranks][:6] == [1, 2, 3, 4, 6, 8]


@pytest.mark.parametrize("whole_word", [False, True])
@pytest.mark.parametrize("phase", [0, 1])
def test_measures_equal_a_recount(dataset, tokenizer, whole_word, phase):
    config = replace(SMALL, masking=MaskingConfig(whole_word=whole_word))
    stats = audit_dataset(dataset, config).drawn[phase]
    length = SMALL.seq_lengths[phase]
    most = {32: 5, 64: 10}[length]
    source = DynamicInstances(
        dataset.split("train"), tokenizer, length, most, PairsConfig(), config.masking, SEED, phase
    )
    plan = source.plan(0)
    tokens = predicted = full = hidden = kept = random_b = planned = 0
    for position in range(len(plan)):
        batch = source.batch(0, np.array([position]))
        tokens += len(batch.input_ids)
        full += len(batch.input_ids) == length
        predicted += len(batch.masked_lm_ids)
        random_b += int(batch.next_sentence_labels[0])
        planned += int(plan.a_end[position] - plan.a_start[position])
        planned += int(plan.b_end[position] - plan.b_start[position])
        for place, original in zip(batch.masked_lm_positions, batch.masked_lm_ids, strict=True):
            hidden += batch.input_ids[place] == tokenizer.mask_id
            kept += batch.input_ids[place] == original
    assert stats.instances == stats.sampled == len(plan)
    assert stats.max_predictions_per_seq == most
    assert stats.skipped_documents == sum(len(row) == 1 for row in split_rows(dataset, "train"))
    assert sum(stats.lengths.bin_counts) == len(plan)
    expected = {
        "positions filled": tokens / (length * len(plan)),
        "sequences of full length": full / len(plan),
        "tokens cut off to fit": 1 - (tokens - 3 * len(plan)) / planned,
        "pairs with a random B (NotNext)": random_b / len(plan),
        "random Bs from the document of A": 0.0,
        "other Bs that follow their A": 1.0,
        "positions predicted": predicted / tokens,
        "predictions per sequence": predicted / len(plan),
        "of these, replaced by [MASK]": hidden / predicted,
        "of these, replaced by a random token": (predicted - hidden - kept) / predicted,
        "of these, left as they are": kept / predicted,
    }
    assert {measure.name: measure.measured for measure in stats.measures} == pytest.approx(expected)


def test_measures_hold_for_correct_instances(audit):
    measures = [measure for drawn in audit.drawn for measure in drawn.measures]
    assert [measure.name for measure in measures if not measure.holds] == []
    assert sum(measure.expected is not None for measure in measures) == 2 * 8


def test_a_random_b_from_the_document_of_a_is_reported(dataset, monkeypatch):
    plan_block = batches.plan_block

    def plan_the_same(*args, **settings):
        plan = plan_block(*args, **settings)
        return replace(plan, b_start=plan.a_start, b_end=plan.a_end)

    monkeypatch.setattr(batches, "plan_block", plan_the_same)
    stats = {measure.name: measure for measure in audit_dataset(dataset, SMALL).drawn[0].measures}
    assert stats["random Bs from the document of A"].measured == 1.0
    assert not stats["random Bs from the document of A"].holds
    assert stats["other Bs that follow their A"].measured == 0.0
    assert not stats["other Bs that follow their A"].holds


def test_a_measure_holds_within_its_tolerance():
    assert Measure("share", 0.52, "share").holds
    assert Measure("share", 0.52, "share", 0.5, 0.02).holds
    assert not Measure("share", 0.53, "share", 0.5, 0.02).holds


def test_shown_instances_are_those_of_training(dataset, audit, tokenizer):
    source = DynamicInstances(dataset.split("train"), tokenizer, 32, 5, PairsConfig(), SMALL.masking, SEED, 0)
    assert [shown.position for shown in audit.shown] == list(range(20))
    for shown in audit.shown:
        batch = source.batch(0, np.array([shown.position]))
        a, b = shown.segments
        read = ["[CLS]", *(t.read for t in a), "[SEP]", *(t.read for t in b), "[SEP]"]
        assert read == [tokenizer.tokens[token] for token in batch.input_ids]
        targets = [token.target for token in (*a, *b) if token.target is not None]
        assert targets == [tokenizer.tokens[token] for token in batch.masked_lm_ids]
        assert shown.label == ("NotNext" if batch.next_sentence_labels[0] else "IsNext")
        assert (shown.documents[0] == shown.documents[1]) == (shown.label == "IsNext")
        for segment, number in zip(shown.segments, shown.documents, strict=True):
            sentences = rows_of(dataset.documents)[number]
            text = " ".join(tokenizer.tokens[p] for sentence in sentences for p in sentence)
            assert " ".join(token.target or token.read for token in segment) in text


def test_a_sample_is_the_beginning_of_the_epoch(dataset):
    stats = audit_dataset(dataset, replace(SMALL, sample=10)).drawn[0]
    assert (stats.sampled, sum(stats.lengths.bin_counts)) == (10, 10)
    assert stats.instances > 10


def test_cleaning_is_that_of_the_report(dataset, tmp_path):
    assert audit_dataset(dataset, SMALL).cleaning == json.loads((dataset.path / "report.json").read_text())
    load_tokenizer(dataset.path).save(tmp_path)
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(cloze.InputError, match=r"report\.json: not a JSON file"):
        audit_dataset(replace(dataset, path=tmp_path), SMALL)


def test_a_split_without_documents(tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("\n\n".join("w1 w3 w4\nw6 w7 w9\nw10 w12" for _ in range(2)))
    dataset = build(tokenizer, tmp_path)
    with pytest.raises(cloze.InputError, match="no document in the validation split"):
        audit_dataset(dataset, replace(SMALL, split="validation"))
    assert audit_dataset(dataset, SMALL).counts.documents


@pytest.mark.parametrize("split", ["train", "validation"])
def test_documents_of_one_sentence_give_no_pairs(tokenizer, tmp_path, split):
    (tmp_path / "text.txt").write_text("\n\n".join(f"w1 w3 w4 w{n}" for n in range(1, 99, 3)))
    stats = audit_dataset(build(tokenizer, tmp_path), replace(SMALL, split=split))
    for drawn in stats.drawn:
        assert drawn.skipped_documents == 0
        assert not [measure.name for measure in drawn.measures if "NotNext" in measure.name]
        assert all(measure.holds for measure in drawn.measures)
    assert {shown.label for shown in stats.shown} == {None}
    assert {len(shown.segments) for shown in stats.shown} == {1}


@pytest.mark.parametrize("settings", [{"seq_lengths": ()}, {"seq_lengths": (128, 7)}, {"sample": 0}])
def test_bad_settings(settings):
    with pytest.raises(cloze.InputError, match=r"^(seq_lengths|sample): "):
        AuditConfig(**settings)
