"""Invalid data of every family: the first invalid line is named, with the problem and the remedy."""

from typing import Any

import pytest

from cloze.errors import InputError
from cloze.tasks.predict import featurize
from helpers import task_of

pytestmark = pytest.mark.protected

SWAG_HEADER = ",video-id,sent1,sent2,ending0,ending1,ending2,ending3,label\n"

CASES: dict[tuple[Any, ...], list[tuple[str | bytes, str]]] = {
    ("sst2", "a.tsv"): [
        ("sentence\tlabel\na\t1\nb\t2\n", ":3: unknown label '2'. The labels are 0, 1"),
        ("sentence\tlabel\na\t²\n", ":2: unknown label '²'"),
        ("", ": holds no rows"),
    ],
    ("rte", "a.tsv"): [
        (
            "sentence1\tsentence2\tlabel\na\tb\tentailement\n",
            ":2: unknown label 'entailement'. The labels are entailment, not_entailment",
        )
    ],
    ("mnli", "a.tsv"): [
        ("sentence1\tsentence2\tgold_label\na\tb\t-\n", ":2: unknown label '-'"),
        (
            "sentence1\tsentence2\na\tb\n",
            ":2: no column 'gold_label' or 'label'. There are 'sentence1', 'sentence2'",
        ),
    ],
    ("mnli", "a.jsonl"): [('{"premise": "a", "hypothesis": "b", "label": -1}\n', ":1: unknown label '-1'")],
    ("cola", "a.tsv"): [
        ("x\t1\t\ta\nx\t0\tb\n", ":2: 3 cells, a row has 4 columns"),
        ("", ": holds no rows"),
    ],
    ("mrpc", "a.tsv"): [
        ("sentence\tlabel\na\t1\n", ":2: no column '#1 String' or 'sentence1'. There are 'sentence', 'label'")
    ],
    ("mrpc", "a.csv"): [('#1 String,#2 String,Quality\n"a,b,1\n', ":2: a quotation mark is never closed")],
    ("ranking", "a.tsv"): [
        ("query\tpassage\tlabel\na\tb\t0\n", ": no passage is relevant to its query"),
        ("query\tpassage\tlabel\na\tb\t-1\n", ":2: relevance -1 is not a whole number of 0 or more"),
        ("query\tpassage\tlabel\na\tb\t0.5\n", ":2: relevance 0.5 is not a whole number"),
        ("query\tpassage\tlabel\na\tb\tyes\n", ":2: score 'yes' is not a number"),
        ("query\tpassage\tlabel\na\tb\tnan\n", ":2: score 'nan' is not a number"),
    ],
    ("wnli", "a.tsv"): [("sentence1\tsentence2\tlabel\na\tb\t\n", ":2: the cell 'label' is empty")],
    ("qqp", "a.jsonl"): [
        ('{"question1": "a", "question2": null, "label": 1}\n', ":1: 'question2' is null, not a text")
    ],
    ("stsb", "a.tsv"): [
        ("sentence1\tsentence2\tscore\na\tb\thigh\n", ":2: score 'high'"),
        ("sentence1\tsentence2\tscore\na\tb\t2;5\n", ":2: score '2;5' is not a number"),
    ],
    ("regression", "a.tsv"): [
        ("text\tlabel\na\t1\nb\tnan\n", ":3: score 'nan' is not a number. `missing_labels=drop`"),
        ("text\tlabel\na\t1\nb\t1e999\n", ":3: score '1e999'"),
        ("text\tlabel\na\t1\nb\t1\n", ": no score is between 1 and 1"),
    ],
    ("classification", "a.tsv"): [
        ("text\tlabel\na\tx\nb\t \n", ":3: the cell 'label' is empty. `missing_labels=drop`"),
    ],
    ("classification", "a.jsonl"): [
        ('{"text": "a", "label": NaN}\n', ":1: the cell 'label' is empty. No row has a label"),
        ('{"text": "a", "label": null}\n', ":1: the cell 'label' is empty. No row has a label"),
    ],
    ("multi-label", "a.tsv"): [("text\tlabels\na\t\nb\t ,\n", ": no row has a label")],
    ("multi-label", "b.tsv"): [
        (
            "text\tlabels\na\t[1, 0]\n",
            ":2: 'labels' is [1, 0], 0 or 1 for each label, and the labels have no names",
        ),
        (
            "text\tlabels\na\t[x, y]\n",
            ":2: the cell 'labels' is '[x, y]', a list that cannot be read. Write its",
        ),
        (
            "text\tlabels\na\t['x', nan]\n",
            ":2: the cell 'labels' is \"['x', nan]\", a list that cannot be read",
        ),
    ],
    ("multi-label", "b.jsonl"): [('{"text": "a", "labels": null}\n', ":1: the cell 'labels' is empty")],
    ("multi-label", "c.tsv", ("label_columns", ("x", "y"))): [
        ("text\tx\ty\na\t1\t2\n", ":2: 'y' is '2', not 0 or 1"),
        ("text\tx\ty\na\t1\t\n", ":2: 'y' is '', not 0 or 1"),
        ("text\tx\na\t1\n", ":2: no column 'y'"),
    ],
    ("multi-label", "a.tsv", ("labels", ("x", "y"))): [
        ("text\tlabels\na\tx,y\nb\tx, z\n", ":3: unknown label 'z'. The labels are x, y")
    ],
    ("multi-label", "a.jsonl"): [
        ('{"text": "a", "labels": ["x", 3]}\n', ":1: 'labels' is [\"x\", 3], not"),
    ],
    ("text-pairs", "a.tsv"): [
        ("text\tpair\na\tb\nc\t \n", ":3: the cell 'pair' is empty"),
        (
            "text\tpairs\na\tb\n",
            ":2: no column 'pair' or 'positive' or 'sentence2'. There are 'text', 'pairs'",
        ),
        ("text\tpair\na\tb\nc\tb\n", ": every row has the same second text"),
    ],
    ("text-pairs", "a.csv"): [('text,pair\n"",b\n', ":2: the cell 'text' is empty")],
    ("text-pairs", "a.jsonl"): [('{"text": "a", "pair": ["b"]}\n', ":1: 'pair' is")],
    ("scored-pairs", "a.tsv"): [("text\tpair\tscore\na\tb\t1\nc\td\thigh\n", ":3: score 'high' is not")],
    ("swag", "a.csv"): [
        (SWAG_HEADER.replace(",ending2", "") + "0,v,a,b,c,d,e,1\n", ":2: no column 'ending2'"),
        (SWAG_HEADER + '0,v,"a,b,c,d,e,f,1\n', ":2: a quotation mark is never closed"),
        (SWAG_HEADER.replace(",label", "") + "0,v,a,b,c,d,e,f\n", ":2: no column 'label'"),
    ],
    ("multiple-choice", "a.jsonl"): [
        ('{"prompt": "a", "choices": ["b"], "label": 0}\n', ":1: 1 choices: give two"),
        (
            '{"prompt": "a", "choices": "b or c", "label": 0}\n',
            ":1: 'choices' is \"b or c\", not a list of texts",
        ),
        ('{"prompt": "a", "choices": [1, 2], "label": 0}\n', ":1: 'choices' is [1, 2], not a list of texts"),
    ],
    ("multiple-choice", "b.csv"): [
        (
            'prompt,choices,label\na,"[""b"", 1]",0\n',
            ':2: \'choices\' is "[\\"b\\", 1]", not a list of texts',
        ),
    ],
    ("multiple-choice", "a.csv", ("choice_columns", ("right", "wrung"))): [
        ("prompt,right,wrong,label\na,b,c,0\n", ":2: no column 'wrung'. There are 'prompt', 'right'")
    ],
    ("classification", "a.parquet"): [(b"PAR1\x00\x00", ": cannot be read: Parquet")],
    ("sst2", "a.tsv.gz"): [(b"\x1f\x8b\x08\x00\x00", ": cannot be read")],
    ("classification", "a.txt"): [("a\n", ": not a table that cloze reads")],
}
"""From task, file and settings to content and the end of the error message, which starts with the file."""


@pytest.mark.parametrize(
    ("case", "content", "message"),
    [(case, *row) for case, rows in CASES.items() for row in rows],
    ids=lambda value: value if isinstance(value, str) and value.startswith(":") else "",
)
def test_first_invalid_line_is_named(tmp_path, tokenizer, case, content, message):
    name, file, *settings = case
    path = tmp_path / file
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    task = task_of(name, **dict(settings))
    with pytest.raises(InputError) as raised:  # noqa: PT012
        examples = list(task.examples(path))
        featurize(task.fit(examples), examples, tokenizer, max_seq_length=16)
    assert f"{path}{message}" in str(raised.value)
    assert "\n" not in str(raised.value)


INVALID_SETTINGS = [
    ("classification", {"class_weights": (1.0, 2.0)}, "2 class_weights for 0 labels"),
    ("mrpc", {"class_weights": (1.0, -2.0)}, "class_weights must be numbers of 0 or more"),
    ("mrpc", {"class_weights": (0.0, 0.0)}, "class_weights are all 0"),
    ("multi-label", {"labels": ("x", "y", "x")}, "labels holds 'x' twice"),
    ("regression", {"minimum": 5.0, "maximum": 1.0}, "minimum 5.0 is not less than maximum"),
    ("multi-label", {"thresholds": 1.0}, "threshold 1.0 is not between 0 and 1"),
    ("multi-label", {"labels": ("x", "y"), "thresholds": {"z": 0.3}}, "threshold of 'z', not one of x, y"),
    ("multi-label", {"labels": ("x", "y"), "positive_weights": (2.0,)}, "1 positive_weights for 2 labels"),
    ("multi-label", {"separator": ""}, "separator is empty"),
]


@pytest.mark.parametrize(("task", "settings", "message"), INVALID_SETTINGS)
def test_invalid_settings_are_refused(task, settings, message):
    with pytest.raises(InputError, match=message):
        task_of(task, **settings)
