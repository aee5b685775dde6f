"""Bad data of every family: the first line that is wrong is named, with what is wrong and what would be right."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cloze.errors import InputError
from cloze.tasks.features import featurize
from cloze.tasks.registry import find_task
from cloze.text.tokenizer import Tokenizer

CODAH_ROW = "o\ta\tb\tc\td\te\t"
SWAG_HEADER = ",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"


@dataclass(frozen=True)
class Bad:
    task: str
    file: str
    content: str | bytes
    says: str
    settings: dict[str, Any] = field(default_factory=dict)


CASES = {
    # GLUE
    "a label outside the set": Bad(
        "sst2",
        "a.tsv",
        "sentence\tlabel\na\t1\nb\t2\n",
        "a.tsv:3: label '2' is none of the task's. It knows 0, 1",
    ),
    "a label's name misspelt": Bad(
        "rte",
        "a.tsv",
        "sentence1\tsentence2\tlabel\na\tb\tentailement\n",
        "a.tsv:2: label 'entailement' is none of the task's. It knows entailment, not_entailment",
    ),
    "MNLI without agreement": Bad(
        "mnli",
        "a.tsv",
        "sentence1\tsentence2\tgold_label\na\tb\t-\n",
        "a.tsv:2: label '-' is none of the task's",
    ),
    "a test file to learn from": Bad(
        "mnli",
        "a.tsv",
        "sentence1\tsentence2\na\tb\n",
        "a.tsv:2: no column 'gold_label' or 'label'. There are 'sentence1', 'sentence2'",
    ),
    "a number without a label": Bad(
        "mnli",
        "a.jsonl",
        '{"premise": "a", "hypothesis": "b", "label": -1}\n',
        "a.jsonl:1: label '-1' is none",
    ),
    "CoLA with a cell too few": Bad(
        "cola", "a.tsv", "x\t1\t\ta\nx\t0\tb\n", "a.tsv:2: 3 cells, a row has 4 columns"
    ),
    "the columns of another task": Bad(
        "mrpc",
        "a.tsv",
        "sentence\tlabel\na\t1\n",
        "a.tsv:2: no column '#1 String' or 'sentence1'. There are 'sentence', 'label'",
    ),
    "MRPC that a spreadsheet saved as CSV": Bad(
        "mrpc", "a.csv", '#1 String,#2 String,Quality\n"a,b,1\n', "a.csv:2: a quotation mark is never closed"
    ),
    "a number that is no digit": Bad(
        "sst2", "a.tsv", "sentence\tlabel\na\t²\n", "a.tsv:2: label '²' is none of the task's"
    ),
    "nothing to find": Bad(
        "ranking", "a.tsv", "query\tpassage\tlabel\na\tb\t0\n", "a.tsv: no passage is relevant to its query"
    ),
    "an empty label": Bad(
        "wnli", "a.tsv", "sentence1\tsentence2\tlabel\na\tb\t\n", "a.tsv:2: the cell 'label' is empty"
    ),
    "a text that is null": Bad(
        "qqp",
        "a.jsonl",
        '{"question1": "a", "question2": null, "label": 1}\n',
        "a.jsonl:1: 'question2' is null, not a text",
    ),
    "an empty file": Bad("sst2", "a.tsv", "", "a.tsv: holds no rows"),
    "CoLA that is empty": Bad("cola", "a.tsv", "", "a.tsv: holds no rows"),
    # regression
    "a score that is a word": Bad(
        "stsb", "a.tsv", "sentence1\tsentence2\tscore\na\tb\thigh\n", "a.tsv:2: score 'high'"
    ),
    "a score with a decimal comma": Bad(
        "stsb", "a.tsv", "sentence1\tsentence2\tscore\na\tb\t2,5\n", "a.tsv:2: score '2,5' is not a number"
    ),
    "a score that is not finite": Bad(
        "regression", "a.tsv", "text\tlabel\na\t1\nb\tnan\n", "a.tsv:3: score 'nan'"
    ),
    "an infinite score": Bad(
        "regression", "a.tsv", "text\tlabel\na\t1\nb\t1e999\n", "a.tsv:3: score '1e999'"
    ),
    "scores all the same": Bad(
        "regression", "a.tsv", "text\tlabel\na\t1\nb\t1\n", "a.tsv: no score is between 1 and 1"
    ),
    # multi-label
    "no labels anywhere": Bad(
        "multi-label", "a.tsv", "text\tlabels\na\t\nb\t ,\n", "a.tsv: no row has a label"
    ),
    "one label of several unknown": Bad(
        "multi-label",
        "a.tsv",
        "text\tlabels\na\tx,y\nb\tx, z\n",
        "a.tsv:3: label 'z' is none of the task's. It knows x, y",
        {"labels": ("x", "y")},
    ),
    "a label with the separator in it": Bad(
        "multi-label",
        "a.jsonl",
        '{"text": "a", "labels": ["x", "y,z"]}\n',
        "a.jsonl:1: label 'y,z' holds the separator. Choose another with --set multi-label.separator",
    ),
    "labels that are no texts": Bad(
        "multi-label",
        "a.jsonl",
        '{"text": "a", "labels": ["x", 3]}\n',
        "a.jsonl:1: 'labels' is [\"x\", 3], not",
    ),
    # vectors
    "a pair without its second text": Bad(
        "text-pairs", "a.tsv", "text\tpair\na\tb\nc\t \n", "a.tsv:3: the cell 'pair' is empty"
    ),
    "a pair without its first text": Bad(
        "text-pairs", "a.csv", 'text,pair\n"",b\n', "a.csv:2: the cell 'text' is empty"
    ),
    "pairs without a second column": Bad(
        "text-pairs", "a.tsv", "text\tpairs\na\tb\n", "a.tsv:2: no column 'pair'. Did you mean 'pairs'"
    ),
    "pairs with nothing to tell apart": Bad(
        "text-pairs", "a.tsv", "text\tpair\na\tb\nc\tb\n", "a.tsv: every row has the same 'pair'"
    ),
    "a second text that is a list": Bad(
        "text-pairs", "a.jsonl", '{"text": "a", "pair": ["b"]}\n', "a.jsonl:1: 'pair' is"
    ),
    "a scored pair whose score is a word": Bad(
        "scored-pairs", "a.tsv", "text\tpair\tscore\na\tb\t1\nc\td\thigh\n", "a.tsv:3: score 'high' is not"
    ),
    "features of one label": Bad(
        "feature-classification",
        "a.tsv",
        "text\tlabel\na\tx\nb\tx\n",
        "a.tsv: every row has the label 'x'",
    ),
    "features of a label unknown": Bad(
        "feature-classification",
        "a.tsv",
        "text\tlabel\na\tx\nb\tz\n",
        "a.tsv:3: label 'z' is none of the task's. It knows x, y",
        {"labels": ("x", "y")},
    ),
    # multiple choice
    "CODAH with a choice too few": Bad(
        "codah", "a.tsv", "o\ta\tb\tc\td\t1\n", "a.tsv:1: 6 cells, a row has 7"
    ),
    "a choice that is not there": Bad(
        "codah",
        "a.tsv",
        f"{CODAH_ROW}3\n{CODAH_ROW}4\n",
        "a.tsv:2: label '4' is not the number of a choice. There are 4",
    ),
    "a choice by its letter": Bad(
        "codah", "a.tsv", f"{CODAH_ROW}B\n", "a.tsv:1: label 'B' is not the number"
    ),
    "a choice counted backwards": Bad(
        "codah", "a.tsv", f"{CODAH_ROW}-1\n", "a.tsv:1: label '-1' is not the number"
    ),
    "SWAG without an ending": Bad(
        "swag",
        "a.csv",
        SWAG_HEADER.replace(",ending2", "") + "0,v,a,b,c,d,e,1\n",
        "a.csv:2: no column 'ending2'",
    ),
    "SWAG with an open quotation": Bad(
        "swag", "a.csv", f'{SWAG_HEADER}0,v,"a,b,c,d,e,f,1\n', "a.csv:2: a quotation mark is never closed"
    ),
    "SWAG's test file to learn from": Bad(
        "swag", "a.csv", SWAG_HEADER.replace(",label", "") + "0,v,a,b,c,d,e,f\n", "a.csv:2: no column 'label'"
    ),
    "one choice": Bad(
        "multiple-choice",
        "a.jsonl",
        '{"prompt": "a", "choices": ["b"], "label": 0}\n',
        "a.jsonl:1: 1 choices: give two",
    ),
    "choices in one text": Bad(
        "multiple-choice",
        "a.jsonl",
        '{"prompt": "a", "choices": "b or c", "label": 0}\n',
        "a.jsonl:1: 'choices' is \"b or c\", not a list of texts",
    ),
    "choices that are numbers": Bad(
        "multiple-choice",
        "a.jsonl",
        '{"prompt": "a", "choices": [1, 2], "label": 0}\n',
        "a.jsonl:1: 'choices' is [1, 2], not a list of texts",
    ),
    "a column of choices that is not there": Bad(
        "multiple-choice",
        "a.csv",
        "prompt,right,wrong,label\na,b,c,0\n",
        "a.csv:2: no column 'wrung'. Did you mean 'wrong'",
        {"choice_columns": ("right", "wrung")},
    ),
    # files
    "a Parquet file cut short": Bad(
        "classification", "a.parquet", b"PAR1\x00\x00", "a.parquet: not a Parquet file"
    ),
    "a compressed file cut short": Bad(
        "sst2", "a.tsv.gz", b"\x1f\x8b\x08\x00\x00", "a.tsv.gz: cannot be read"
    ),
    "plain text to learn from": Bad("classification", "a.txt", "a\n", "a.txt: not a table that cloze reads"),
}


@pytest.mark.parametrize("kind", CASES)
def test_the_first_bad_line_is_named(tmp_path: Path, tokenizer: Tokenizer, kind: str) -> None:
    case = CASES[kind]
    path = tmp_path / case.file
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    task = find_task(case.task)(**case.settings)

    def read() -> None:
        examples = list(task.examples(path))
        featurize(task.fitted(examples), examples, tokenizer, max_seq_length=16)

    with pytest.raises(InputError) as raised:
        read()
    assert f"{tmp_path}/{case.says}" in str(raised.value)
    assert "\n" not in str(raised.value)


BAD_SETTINGS = {
    "weights without labels": (
        "classification",
        {"class_weights": (1.0, 2.0)},
        "2 class_weights for 0 labels",
    ),
    "negative weights": (
        "mrpc",
        {"class_weights": (1.0, -2.0)},
        "class_weights must be numbers of 0 or more",
    ),
    "a weight that is no number": (
        "mrpc",
        {"class_weights": (1.0, float("nan"))},
        "class_weights must be numbers of 0 or more",
    ),
    "weights of nothing": ("mrpc", {"class_weights": (0.0, 0.0)}, "class_weights are all 0"),
    "weights twice": (
        "mrpc",
        {"class_weights": (1.0, 2.0), "balanced": True},
        "one of them says the weights",
    ),
    "a label twice": ("multi-label", {"labels": ("x", "y", "x")}, "labels holds 'x' twice"),
    "a scale upside down": (
        "regression",
        {"minimum": 5.0, "maximum": 1.0},
        "minimum 5.0 is not less than maximum",
    ),
    "a threshold of one": ("multi-label", {"threshold": 1.0}, "threshold 1.0 is not between 0 and 1"),
    "no separator": ("multi-label", {"separator": ""}, "separator is empty"),
}


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_settings_that_make_no_sense(kind: str) -> None:
    task, settings, says = BAD_SETTINGS[kind]
    with pytest.raises(ValueError, match=says):
        find_task(task)(**settings)
