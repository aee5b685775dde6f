"""GLUE, SWAG and CODAH as their files come: columns, labels, and what is odd about each."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyarrow import parquet as pq

from cloze.errors import InputError
from cloze.tasks.codah import CODAH
from cloze.tasks.cola import CoLA
from cloze.tasks.mnli import AX, MNLI
from cloze.tasks.mrpc import MRPC
from cloze.tasks.qnli import QNLI
from cloze.tasks.qqp import QQP
from cloze.tasks.registry import find_task
from cloze.tasks.stsb import STSB
from cloze.tasks.swag import SWAG
from cloze.tasks.task import AnyTask

# task, file, examples, labels where they are few, the first example
REAL = [
    ("cola", "glue/CoLA/train.tsv", 8551, {"1": 6023, "0": 2528}, "Our friends won't buy this analysis"),
    ("cola", "glue/CoLA/dev.tsv", 1043, {"1": 721, "0": 322}, "The sailors rode the breeze"),
    ("sst2", "glue/SST-2/train.tsv", 67349, {"1": 37569, "0": 29780}, "hide new secretions"),
    ("sst2", "glue/SST-2/dev.tsv", 872, {"1": 444, "0": 428}, "one long string of cliches"),
    ("mrpc", "glue/MRPC/train.tsv", 3668, {"1": 2474, "0": 1194}, "Amrozi accused his brother"),
    ("mrpc", "glue/MRPC/dev.tsv", 408, {"1": 279, "0": 129}, "He said the foodservice pie"),
    ("mrpc", "glue/MRPC/test.tsv", 1725, {"1": 1147, "0": 578}, "PCCW's chief operating officer"),
    ("stsb", "glue/STS-B/train.tsv", 5749, None, "A plane is taking off."),
    ("stsb", "glue/STS-B/dev.tsv", 1500, None, "A man with a hard hat"),
    ("wnli", "glue/WNLI/train.tsv", 635, {"0": 323, "1": 312}, "I stuck a pin through a carrot."),
    ("wnli", "glue/WNLI/dev.tsv", 71, {"0": 40, "1": 31}, "The drain is clogged"),
    ("qnli", "glue/QNLI/dev.tsv", 5463, {"not_entailment": 2761, "entailment": 2702}, "What came into force"),
    (
        "mnli",
        "glue/MNLI-sample/mnli.train.jsonl",
        10000,
        {"contradiction": 3395, "neutral": 3330, "entailment": 3275},
        "you know when",
    ),
    ("qqp", "glue/QQP-sample/qqp.valid.jsonl", 20215, {"0": 12690, "1": 7525}, "What is the solution of"),
    ("codah", "codah/full_data.tsv", 2776, {3: 706, 2: 697, 0: 689, 1: 684}, "I am always very hungry"),
]
WITHOUT_LABELS = [
    ("cola", "glue/CoLA/test.tsv", 1063, "Bill whistled past the house."),
    ("cola", "glue/CoLA/dev.tsv", 1043, "The sailors rode the breeze"),
    ("sst2", "glue/SST-2/test.tsv", 1821, "no movement , no yuks"),
    ("wnli", "glue/WNLI/test.tsv", 146, "Maude and Dora had seen"),
    ("qnli", "glue/QNLI/test.tsv", 5463, "What organization is devoted"),
    ("stsb", "glue/STS-B/test.tsv", 1379, "A girl is styling her hair."),
]


@pytest.mark.parametrize(("name", "file", "count", "labels", "first"), REAL, ids=lambda x: str(x)[:40])
def test_real_files(shared: Path, name: str, file: str, count: int, labels: dict | None, first: str) -> None:
    task = find_task(name)()
    examples = list(task.examples(shared / "data" / file))
    assert len(examples) == count
    assert labels is None or Counter(example.label for example in examples) == labels
    assert getattr(examples[0], "text", getattr(examples[0], "prompt", "")).startswith(first)
    assert examples[0].where.startswith(str(shared / "data" / file))
    assert task.fitted(examples) == task


@pytest.mark.parametrize(("name", "file", "count", "first"), WITHOUT_LABELS, ids=lambda x: str(x)[:40])
def test_real_files_without_labels(shared: Path, name: str, file: str, count: int, first: str) -> None:
    examples = list(find_task(name)().examples(shared / "data" / file, labelled=False))
    assert len(examples) == count
    assert examples[0].text.startswith(first)
    assert all(example.label is None for example in examples)


def _examples(task: AnyTask, path: Path, content: str, *, labelled: bool = True) -> list:
    path.write_text(content, encoding="utf-8")
    return list(task.examples(path, labelled=labelled))


def test_a_quotation_mark_is_a_character(tmp_path: Path) -> None:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (example,) = _examples(MRPC(), tmp_path / "a.tsv", f'{header}1\t7\t8\t"He said\tShe "did" not\n')
    assert (example.text, example.pair, example.label) == ('"He said', 'She "did" not', "1")
    (test,) = _examples(MRPC(), tmp_path / "b.tsv", "index" + header[7:] + "0\t7\t8\ta\tb\n", labelled=False)
    assert (test.text, test.pair, test.label) == ("a", "b", None)


def test_rows_of_qqp_that_a_line_end_broke_are_left_out(tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    rows = "1\t2\t3\tWhy?\tHow?\t1\n4\t5\t6\tbroken\nhere\t0\n7\t8\t9\tWho?\tWhich?\t0\n"
    examples = _examples(QQP(), tmp_path / "a.tsv", header + rows)
    assert [(example.text, example.label) for example in examples] == [("Why?", "1"), ("Who?", "0")]
    with pytest.raises(InputError, match=r"b\.tsv:3: 4 cells, the first line names 6 columns"):
        _examples(QQP(), tmp_path / "b.tsv", header + rows, labelled=False)


def test_mnli_takes_the_gold_label_of_five(tmp_path: Path) -> None:
    header = "index\tpromptID\tsentence1_parse\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"
    (example,) = _examples(
        MNLI(), tmp_path / "a.tsv", header + "0\t1\tx\ta\tb\tneutral\tneutral\tentailment\n"
    )
    assert (example.text, example.pair, example.label) == ("a", "b", "entailment")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_labels_may_be_numbers_as_other_programs_have_them(tmp_path: Path, kind: str) -> None:
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


def test_ax_reads_both_of_its_files(tmp_path: Path) -> None:
    (full,) = _examples(
        AX(), tmp_path / "full.tsv", "Domain\tPremise\tHypothesis\tLabel\nNews\ta\tb\tneutral\n"
    )
    assert (full.text, full.pair, full.label) == ("a", "b", "neutral")
    (test,) = _examples(AX(), tmp_path / "ax.tsv", "index\tsentence1\tsentence2\n0\ta\tb\n", labelled=False)
    assert (test.text, test.pair) == ("a", "b")


def test_models_of_other_programs_keep_the_order_of_their_classes() -> None:
    assert QNLI().with_classes(("not_entailment", "entailment")).labels == ("not_entailment", "entailment")
    assert MRPC().with_classes(("LABEL_0", "LABEL_1")) == MRPC()
    with pytest.raises(InputError, match="its classes are 0, 1, the task's entailment"):
        QNLI().with_classes(("LABEL_0", "LABEL_1"))


def test_scores_of_stsb_stand_between_0_and_5(tmp_path: Path) -> None:
    header = "index\tgenre\tsentence1\tsentence2\tscore\n"
    (example,) = _examples(STSB(), tmp_path / "a.tsv", header + "0\tnews\ta\tb\t2.500\n")
    assert STSB().target(example) == 0.5


def test_swag_puts_the_beginning_before_each_ending(tmp_path: Path) -> None:
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    row = '0,v,7,x,"He sat, then rose.",He,gold,ran.,"""hid"".",flew.,,2\n'
    (question,) = _examples(SWAG(), tmp_path / "a.csv", header + row)
    assert question.prompt == "He sat, then rose."
    assert question.choices == ("He ran.", 'He "hid".', "He flew.", "He")
    assert question.label == 2
    no_label = _examples(
        SWAG(), tmp_path / "b.csv", header.replace(",label", "") + row[:-3] + "\n", labelled=False
    )
    assert no_label == [replace(question, label=None, where=f"{tmp_path / 'b.csv'}:2")]


def test_codah_has_no_first_line_of_names(tmp_path: Path) -> None:
    (question,) = _examples(CODAH(), tmp_path / "a.tsv", "i\tI\ta\tb\tc\td\t3\n")
    assert (question.choices, question.label, question.where) == (
        ("a", "b", "c", "d"),
        3,
        f"{tmp_path}/a.tsv:1",
    )


def test_cola_is_read_with_and_without_names(tmp_path: Path) -> None:
    (example,) = _examples(CoLA(), tmp_path / "a.tsv", "gj04\t0\t*\tThis sentence likes.\n")
    assert (example.text, example.label) == ("This sentence likes.", "0")
    (named,) = _examples(CoLA(), tmp_path / "b.tsv", "sentence\tlabel\tidx\nMe likes.\t0\t7\n")
    assert (named.text, named.label) == ("Me likes.", "0")
    table = pa.table({"sentence": ["Me likes."], "label": [0]})
    pq.write_table(table, tmp_path / "d.parquet")
    (stored,) = CoLA().examples(tmp_path / "d.parquet")
    assert (stored.text, stored.label) == ("Me likes.", "0")
    (line,) = _examples(CoLA(), tmp_path / "c.txt", "Me likes.\n", labelled=False)
    assert line.text == "Me likes."
