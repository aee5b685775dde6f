"""GLUE and SWAG as their files are: columns, labels, and the peculiarities of each."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from cloze.errors import DataWarning, InputError
from cloze.tasks.glue import AX, MNLI, MRPC, QNLI, QQP, STSB, CoLA
from cloze.tasks.swag import SWAG
from cloze.tasks.task import AnyTask


def _examples(task: AnyTask, path: Path, content: str, *, labeled: bool = True) -> list:
    path.write_text(content, encoding="utf-8")
    return list(task.examples(path, labeled=labeled))


def test_quotation_marks_of_a_tsv_are_characters(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (example,) = _examples(MRPC(), tmp_path / "a.tsv", f'{header}1\t7\t8\t"He said\tShe "did" not\n')
    assert (example.text, example.pair, example.label) == ('"He said', 'She "did" not', "1")
    (test,) = _examples(MRPC(), tmp_path / "b.tsv", "index" + header[7:] + "0\t7\t8\ta\tb\n", labeled=False)
    assert (test.text, test.pair, test.label) == ("a", "b", None)


@pytest.mark.protected
def test_qqp_leaves_out_rows_broken_by_a_line_end(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "1\t2\t3\tWhy?\tHow?\t1\n4\t5\t6\tbroken\nhere\t0\n7\t8\t9\tWho?\tWhich?\t0\n"
    with pytest.warns(DataWarning, match=r"a\.tsv: 2 of 4 rows are left out: line 3: 4 cells"):
        examples = _examples(QQP(), tmp_path / "a.tsv", header + rows)
    assert [(example.text, example.label) for example in examples] == [("Why?", "1"), ("Who?", "0")]
    with pytest.raises(InputError, match=r"b\.tsv:3: 4 cells, the first line names 6 columns"):
        _examples(QQP(), tmp_path / "b.tsv", header + rows, labeled=False)


def test_mnli_reads_the_gold_label(tmp_path):
    header = "index\tpromptID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"
    row = "0\t1\tx\ta\tb\tneutral\tneutral\tentailment\n"
    (example,) = _examples(MNLI(), tmp_path / "a.tsv", header + row)
    assert (example.text, example.pair, example.label) == ("a", "b", "entailment")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_labels_may_be_numbers(tmp_path, kind):
    rows = [
        {"premise": "a", "hypothesis": "b", "label": 2, "idx": 0},
        {"premise": "c", "hypothesis": "", "label": 0, "idx": 1},
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    other_order = MNLI(labels=("contradiction", "neutral", "entailment"))
    for task in (MNLI(), other_order, AX()):
        examples = list(task.examples(path))
        assert [example.label for example in examples] == ["contradiction", "entailment"]
        assert examples[1].where == f"{path}:2"
    assert other_order.target(examples[0]) == 0


def test_ax_reads_both_files(tmp_path):
    rows = "Domain\tPremise\tHypothesis\tLabel\nNews\ta\tb\tneutral\n"
    (full,) = _examples(AX(), tmp_path / "full.tsv", rows)
    assert (full.text, full.pair, full.label) == ("a", "b", "neutral")
    (test,) = _examples(AX(), tmp_path / "ax.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", labeled=False)
    assert (test.text, test.pair) == ("a", "b")


def test_external_models_keep_the_order_of_their_classes():
    names = ("not_entailment", "entailment")
    assert QNLI().with_class_names(names).labels == names
    assert MRPC().with_class_names(("LABEL_0", "LABEL_1")) == MRPC()
    with pytest.raises(InputError, match="its classes are 0, 1, the task's entailment"):
        QNLI().with_class_names(("LABEL_0", "LABEL_1"))


def test_stsb_scores_are_scaled_from_0_to_5(tmp_path):
    header = "index\tgenre\tsentence1\tsentence2\tscore\n"
    (example,) = _examples(STSB(), tmp_path / "a.tsv", header + "0\tnews\ta\tb\t2.500\n")
    assert STSB().target(example) == 0.5


def test_swag_joins_sent2_and_each_ending(tmp_path):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    row = '0,v,7,x,"He sat, then rose.",He,gold,ran.,"""hid"".",flew.,,2\n'
    (question,) = _examples(SWAG(), tmp_path / "a.csv", header + row)
    assert question.prompt == "He sat, then rose."
    assert question.choices == ("He ran.", 'He "hid".', "He flew.", "He")
    assert question.label == 2
    unlabeled = header.replace(",label", "") + row[:-3] + "\n"
    no_label = _examples(SWAG(), tmp_path / "b.csv", unlabeled, labeled=False)
    assert no_label == [replace(question, label=None, where=f"{tmp_path / 'b.csv'}:2")]


def test_cola_is_read_with_and_without_header(tmp_path):
    (example,) = _examples(CoLA(), tmp_path / "a.tsv", "gj04\t0\t*\tThis sentence likes.\n")
    assert (example.text, example.label) == ("This sentence likes.", "0")
    (named,) = _examples(CoLA(), tmp_path / "b.tsv", "sentence\tlabel\tidx\nMe likes.\t0\t7\n")
    assert (named.text, named.label) == ("Me likes.", "0")
    table = pyarrow.table({"sentence": ["Me likes."], "label": [0]})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    (stored,) = CoLA().examples(tmp_path / "d.parquet")
    assert (stored.text, stored.label) == ("Me likes.", "0")
    (line,) = _examples(CoLA(), tmp_path / "c.txt", "Me likes.\n", labeled=False)
    assert line.text == "Me likes."
