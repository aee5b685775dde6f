"""The record of a study from the measurements of its runs: tables, differences, plots."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from experiments.published import Published
from experiments.record import write_study_record
from experiments.results import MASKED, NEXT_SENTENCE, PERPLEXITY, RunResult, TaskScores
from experiments.score_tables import ScoreTable, score_rows
from experiments.study import Study

NOTHING: Mapping[str, str] = MappingProxyType({})
ENVIRONMENT = {
    "processor": "P",
    "device": "cpu",
    "threads": 1,
    "compute_dtype": "float32",
    "versions": {"torch": "2"},
}


def write_record(
    directory: Path,
    base: str,
    runs: list[RunResult],
    *,
    metrics: Mapping[str, str] = NOTHING,
    built_on: Mapping[str, str] = NOTHING,
    published: dict[str, Any] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Write the record of runs; return its page, and the rows of results.json by variant."""
    variants = {
        run.variant: {"bilstm_on": built_on[run.variant]} if run.variant in built_on else {} for run in runs
    }
    tasks = {
        name: dict(zip(("task", "metric"), score.split(", "), strict=True)) for name, score in metrics.items()
    }
    facts = None if published is None else Published.read(published, where=directory)
    study = Study("T", base, (1,), {}, variants, tasks, published=facts)
    write_study_record(study, runs, directory / "record")
    rows = json.loads((directory / "record/results.json").read_text())["rows"]
    return (directory / "record/README.md").read_text(), {row["variant"]: row for row in rows}


def run_result(variant: str, seed: int, **scores: float) -> RunResult:
    return RunResult(variant, seed, tasks={name: TaskScores((score,)) for name, score in scores.items()})


def trained(variant: str, seed: int, losses: tuple[float, ...], **changes: Any) -> RunResult:
    run = RunResult(
        variant=variant,
        seed=seed,
        held_out_as="the same",
        seconds=(10.0, 20.0, 30.0),
        masked_lm_losses=losses,
        steps=30,
        tokens=3_000_000,
        pairs={"masked_lm_loss": losses[-1], "next_sentence_accuracy": 0.5},
        segments={"masked_lm_loss": losses[-1]},
        environment=ENVIRONMENT,
    )
    return replace(run, **changes)


def test_scores_are_compared_with_the_paper(tmp_path):
    published = {
        "table": "table8",
        "rows": {"a": "80/10/10", "b": "100/0/0", "c": "80/20/0"},
        "columns": {"NER": "NER, features"},
    }
    runs = [
        run_result("a", 1, NER=60.0, QA=5.0),
        run_result("b", 1, NER=58.0, QA=6.0),
        run_result("a", 2, NER=62.0, QA=5.0),
        run_result("b", 2, NER=59.0, QA=6.0),
        run_result("c", 2, NER=59.0, QA=6.0),
        run_result("d", 2, NER=1.0, QA=2.0),
    ]
    metrics = {"NER": "conll2003, f1", "QA": "squad_v1, f1"}
    runs[0].tasks["NER"] = TaskScores((60.0,), data="some of it")
    page, _ = write_record(tmp_path, "a", runs, metrics=metrics, built_on={"b": "a"}, published=published)
    ner, qa = page.split("\n## ")[1:]
    assert ner.startswith("NER (conll2003, f1)\n")
    assert "| a | 2 | 61.0 ± 1.4 | - | 94.9 | - |" in ner
    assert "| b | 2 | 58.5 ± 0.7 | -2.5 (-8.9 to +3.9) | 94.0 | -0.9 |" in ner
    assert "| c | 1 | 59.0 | - | 94.7 | -0.2 |" in ner
    assert "| d | 1 | 1.0 | - | - | - |" in ner
    assert (
        "| b | 2 | 6.0 ± 0.0 | +1.0 |\n" in qa
    )  # no interval of what is the same; the paper has no such column
    assert "pooled over the rows that vary: 1.12." in ner  # the root of (2 + 0.5) / 2
    assert "pooled" not in qa
    assert "b less a: -2.5 (-8.9 to +3.9)." in ner
    assert "- NER: some of it\n\n" in page
    assert "| 80/20/0 | 84.4 | 95.2 | 94.7 |" in page  # all of it, since not all of its rows are ours
    assert "table 8 of Devlin et al. 2019" in page
    assert "(differences.svg)" in page
    picture = (tmp_path / "record/differences.svg").read_text()
    assert picture.count(">less a<") == 2
    assert ">the paper's<" in picture


def test_scores_are_paired_by_seed():
    scores = {"base": {1: 90.0, 2: 40.0, 3: 50.0}, "late": {3: 51.0, 2: 43.0}}
    _, late = score_rows(scores, "base", {})
    assert late.difference is not None
    assert late.difference.mean == pytest.approx(2.0)


def test_perplexity_is_of_text_as_in_training():
    pairs, segments = {MASKED: math.log(9.0), NEXT_SENTENCE: 0.5}, {MASKED: math.log(4.0)}
    assert RunResult("a", 1, pairs=pairs, segments=segments).score(PERPLEXITY) == pytest.approx(9.0)
    assert RunResult("a", 1, pairs={MASKED: 3.0}, segments=segments).score(PERPLEXITY) == pytest.approx(4.0)
    assert RunResult("a", 1, neighbors=segments).score(PERPLEXITY) is None


def test_other_sizes_are_compared_with_the_papers(tmp_path):
    columns = {"perplexity": "LM (ppl)", "MRPC": "MRPC"}
    published = {"table": "table6", "rows": {}, "columns": columns}
    runs = [
        RunResult(variant, seed, segments={MASKED: loss}, tasks={"MRPC": TaskScores((70.0 + seed,))})
        for variant, loss in {"narrow": 6.0, "wide": 4.0}.items()
        for seed in (1, 2)
    ]
    metrics = {"MRPC": "mrpc, accuracy"}
    page, _ = write_record(tmp_path, "narrow", runs, metrics=metrics, published=published)
    assert "| L=3 H=768 A=12 | 5.84 | 77.9 | 79.8 | 88.4 |" in page
    assert "| wide | 2 | 54.6 ± 0.0 | -348.8 |" in page
    assert "(sizes.svg)" in page
    picture = (tmp_path / "record/sizes.svg").read_text()
    for text in ("narrow", "wide", "the paper's", "MRPC (mrpc, accuracy)"):
        assert f">{text}<" in picture


def test_rows_of_the_paper_can_be_tasks(tmp_path):
    published = {
        "table": "table7",
        "rows": {"tuned": "Fine-tuning, BERT-Base", "last": "Last Hidden"},
        "columns": {"bert": "Dev"},
    }
    runs = [run_result("bert", seed, tuned=80.0 + seed, last=70.0 + seed) for seed in (1, 2)]
    runs[1].tasks["last"] = TaskScores((72.0,), ("no entity predicted",))
    metrics = {"tuned": "conll2003, f1", "last": "feature-tagging, f1"}
    page, _ = write_record(tmp_path, "bert", runs, metrics=metrics, published=published)
    assert "| tuned | 2 | 81.5 ± 0.7 | - | 96.4 | - |" in page
    assert "| last | 2 | 71.5 ± 0.7 | -10.0 | 94.9 | -1.5 |" in page
    assert "Learned nothing: bert, last, seed 2 (no entity predicted)." in page


def test_every_point_is_compared(tmp_path):
    reached = {"masked": {1: (50.0, 70.0), 2: (52.0, 71.0)}, "ltr": {1: (50.0, 66.0), 2: (51.0, 65.0)}}
    runs = [
        RunResult(
            variant,
            seed,
            steps=80,
            tasks={"NER": TaskScores(points, ("no entity predicted" if points[0] == 50.0 else None, None))},
        )
        for variant, by_seed in reached.items()
        for seed, points in by_seed.items()
    ]
    page, _ = write_record(tmp_path, "masked", runs, metrics={"NER": "conll2003, f1"})
    assert "| steps | masked | ltr | less the base's |" in page
    assert "| 40 | 51.0 ± 1.4 | 50.5 ± 0.7 | -0.5 (-6.9 to +5.9) |" in page
    assert "| 80 | 70.5 ± 0.7 | 65.5 ± 0.7 | -5.0 (-17.7 to +7.7) |" in page
    assert "masked, NER after 40 steps, seed 1 (no entity predicted)" in page
    assert "after 80 steps" not in page
    assert not (tmp_path / "record/differences.svg").exists()


def test_a_record_without_the_base(tmp_path):
    scores = {"NER": TaskScores((50.0, 70.0))}
    losses = {"seconds": (1.0,), "masked_lm_losses": (5.0,), "held_out_as": "x"}
    ltr = RunResult("ltr", 2, steps=80, tasks=scores, **losses)
    base = RunResult("masked", 1, steps=80, tasks=scores, **losses)
    for runs in ([ltr], [ltr, base]):
        page, _ = write_record(tmp_path, "masked", runs, metrics={"NER": "conll2003, f1"})
        assert "| ltr | 1 | 70.0 | - |" in page
        assert "differences.svg" not in page


def test_a_table_without_published_scores_has_no_columns_for_them():
    rows = score_rows({"a": {1: 2.0}, "b": {1: 3.0}}, "a", {})
    assert ScoreTable("", "a", rows).lines[2].splitlines()[0] == "|  | seeds | ours | less the base's |"


def test_the_table_has_the_time_to_the_final_loss_of_the_base(tmp_path):
    runs = [
        trained("base", 1, (6.0, 5.0, 4.0)),
        trained("fast", 1, (5.0, 3.0, 2.0)),  # 4 is half way from 10 s to 20 s
        trained("slow", 1, (7.0, 6.0, 5.0)),
        trained("base", 2, (6.0, 5.0, 4.2)),
        trained("fast", 2, (4.2, 3.0, 2.0)),
    ]
    page, rows = write_record(tmp_path, "base", runs)
    assert rows["fast"]["shares_of_time"] == pytest.approx([0.5, 1 / 3])
    assert rows["slow"]["share_of_time"] is None
    assert rows["base"]["share_of_time"] == 1.0
    assert rows["fast"]["pairs"]["difference"]["mean"] == pytest.approx(-2.1)
    assert "| fast | 2 | - | 30 | 0.5 | 3.0 | 2.000 ± 0.000 | -2.100 (-3.371 to -0.829) |" in page
    assert "| slow | 1 | - | 30 | 0.5 | 3.0 | 5.000 | - | 5.000 | - | 0.500 | never |" in page


def test_runs_are_paired_by_seed_and_only_on_the_same_instances(tmp_path):
    runs = [
        *(trained("base", seed, (7.0, 6.0, loss)) for seed, loss in ((1, 9.0), (2, 4.0), (3, 5.0))),
        *(trained("late", seed, (7.0, 6.0, loss)) for seed, loss in ((3, 5.5), (2, 4.25))),
        *(trained("short", seed, (7.0, 6.0, 3.0), max_seq_length=16) for seed in (1, 2, 3)),
    ]
    _, rows = write_record(tmp_path, "base", runs)
    assert rows["late"]["pairs"]["difference"]["mean"] == pytest.approx(0.375)
    assert "difference" not in rows["short"]["pairs"]


def test_the_record_names_the_machines_of_its_runs(tmp_path):
    losses = (6.0, 5.0, 4.0)
    on_gpu = {**ENVIRONMENT, "device": "a card", "compute_dtype": "bfloat16"}
    runs = [
        trained("base", 1, losses),
        trained("other", 1, losses, environment=on_gpu),
        *(trained(variant, 2, losses) for variant in ("base", "other")),
    ]
    page, _ = write_record(tmp_path, "base", runs)
    assert "Processor: P, threads: 1, float32, torch 2 (base 1, base 2, other 2)." in page
    assert "Processor: a card, P, threads: 1, bfloat16, torch 2 (other 1)." in page
    assert "Runs of seed 1 differ in their number format, too." in page
