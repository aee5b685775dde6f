"""GLUE and SWAG as their files are: columns, labels, and the peculiarities of each."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.task import AnyTask
from helpers import task_of


def _examples(task: AnyTask, path: Path, content: str, *, labeled: bool = True) -> list:
    path.write_text(content, encoding="utf-8")
    return list(task.examples(path, labeled=labeled))


def test_quotation_marks_of_a_tsv_are_characters(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (example,) = _examples(task_of("mrpc"), tmp_path / "a.tsv", f'{header}1\t7\t8\t"He said\tShe "did" not\n')
    assert (example.text, example.pair, example.gold) == ('"He said', 'She "did" not', "1")
    (test,) = _examples(
        task_of("mrpc"), tmp_path / "b.tsv", "index" + header[7:] + "0\t7\t8\ta\tb\n", labeled=False
    )
    assert (test.text, test.pair, test.gold) == ("a", "b", None)


@pytest.mark.protected
def test_qqp_leaves_out_rows_broken_by_a_line_end(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "1\t2\t3\tWhy?\tHow?\t1\n4\t5\t6\tbroken\nhere\t0\n7\t8\t9\tWho?\tWhich?\t0\n"
    with pytest.warns(DataWarning, match=r"a\.tsv: 2 of 4 rows are left out: line 3: 4 cells"):
        examples = _examples(task_of("qqp"), tmp_path / "a.tsv", header + rows)
    assert [(example.text, example.gold) for example in examples] == [("Why?", "1"), ("Who?", "0")]
    with pytest.raises(InputError, match=r"b\.tsv:3: 4 cells, the first line names 6 columns"):
        _examples(task_of("qqp"), tmp_path / "b.tsv", header + rows, labeled=False)


def test_mnli_reads_the_gold_label(tmp_path):
    header = "index\tpromptID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"
    row = "0\t1\tx\ta\tb\tneutral\tneutral\tentailment\n"
    (example,) = _examples(task_of("mnli"), tmp_path / "a.tsv", header + row)
    assert (example.text, example.pair, example.gold) == ("a", "b", "entailment")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_labels_may_be_numbers(tmp_path, kind):
    rows = [
        {"premise": "a", "hypothesis": "b", "label": 2, "idx": 0},
        {"premise": "c", "hypothesis": "d", "label": 0, "idx": 1},
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    other_order = task_of("mnli", labels=("contradiction", "neutral", "entailment"))
    for task in (task_of("mnli"), other_order, task_of("ax")):
        examples = list(task.examples(path))
        assert [example.gold for example in examples] == ["contradiction", "entailment"]
        assert examples[1].where == f"{path}:2"
    assert other_order.answer.target(examples[0].gold) == 0


def test_ax_reads_both_files(tmp_path):
    rows = "Domain\tPremise\tHypothesis\tLabel\nNews\ta\tb\tneutral\n"
    (full,) = _examples(task_of("ax"), tmp_path / "full.tsv", rows)
    assert (full.text, full.pair, full.gold) == ("a", "b", "neutral")
    (test,) = _examples(
        task_of("ax"), tmp_path / "ax.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", labeled=False
    )
    assert (test.text, test.pair) == ("a", "b")


def test_external_models_keep_the_order_of_their_classes():
    names = ("not_entailment", "entailment")
    assert task_of("qnli").answer.with_class_names(names).labels == names
    assert task_of("mrpc").answer.with_class_names(("LABEL_0", "LABEL_1")) == task_of("mrpc").answer
    with pytest.raises(InputError, match="its classes are 0, 1, the task's entailment"):
        task_of("qnli").answer.with_class_names(("LABEL_0", "LABEL_1"))


def test_stsb_scores_are_scaled_from_0_to_5(tmp_path):
    header = "index\tgenre\tsentence1\tsentence2\tscore\n"
    (example,) = _examples(task_of("stsb"), tmp_path / "a.tsv", header + "0\tnews\ta\tb\t2.500\n")
    assert task_of("stsb").answer.target(example.gold) == 0.5


def test_swag_joins_sent2_and_each_ending(tmp_path):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    row = '0,v,7,x,"He sat, then rose.",He,gold,ran.,"""hid"".",flew.,went.,2\n'
    (question,) = _examples(task_of("swag"), tmp_path / "a.csv", header + row)
    assert question.prompt == "He sat, then rose."
    assert question.choices == ("He ran.", 'He "hid".', "He flew.", "He went.")
    assert question.gold == 2
    unlabeled = header.replace(",label", "") + row[:-3] + "\n"
    no_label = _examples(task_of("swag"), tmp_path / "b.csv", unlabeled, labeled=False)
    assert no_label == [replace(question, gold=None, where=f"{tmp_path / 'b.csv'}:2")]


def test_cola_is_read_with_and_without_header(tmp_path):
    (example,) = _examples(task_of("cola"), tmp_path / "a.tsv", "gj04\t0\t*\tThis sentence likes.\n")
    assert (example.text, example.gold) == ("This sentence likes.", "0")
    (named,) = _examples(task_of("cola"), tmp_path / "b.tsv", "sentence\tlabel\tidx\nMe likes.\t0\t7\n")
    assert (named.text, named.gold) == ("Me likes.", "0")
    table = pyarrow.table({"sentence": ["Me likes."], "label": [0]})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    (stored,) = task_of("cola").examples(tmp_path / "d.parquet")
    assert (stored.text, stored.gold) == ("Me likes.", "0")
    (line,) = _examples(task_of("cola"), tmp_path / "c.txt", "Me likes.\n", labeled=False)
    assert line.text == "Me likes."
