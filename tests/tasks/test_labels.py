"""Labels as people write them: placeholders, numbers and truth values in several formats, similar classes."""

import itertools
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.cli import main
from cloze.config import read_dict
from cloze.data.reading.memory import rows_from_memory
from cloze.errors import DataWarning, InputError
from cloze.finetuning.data import count_classes, read_examples
from cloze.tasks.config import with_settings
from cloze.tasks.custom import Classification, CustomMultipleChoice, Ranking, Regression
from cloze.tasks.families.multi_label import MultiLabel
from cloze.tasks.families.sequence_classification import ClassPrediction
from cloze.tasks.labels import PLACEHOLDERS, find_class, merge_labels
from cloze.tasks.texts import LabeledText

Rows = list[tuple[str, Any]]


def _lines(separator: str) -> Callable[[Path, Rows], None]:
    def write(path: Path, rows: Rows) -> None:
        lines = [separator.join(["text", "label"]), *(f"{text}{separator}{label}" for text, label in rows)]
        path.write_text("".join(f"{line}\n" for line in lines))

    return write


def _json_lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows))


def _parquet(path: Path, rows: Rows) -> None:
    texts, labels = zip(*rows, strict=True)
    pyarrow.parquet.write_table(pyarrow.table({"text": list(texts), "label": list(labels)}), path)


WRITERS = {"tsv": _lines("\t"), "csv": _lines(";"), "jsonl": _json_lines, "parquet": _parquet}


@pytest.mark.parametrize(
    ("kind", "placeholder"),
    [
        *(("jsonl", placeholder) for placeholder in [*sorted(PLACEHOLDERS), "", None, float("nan")]),
        *itertools.product(("tsv", "csv", "parquet"), ("n/a", "", None, float("nan"))),
    ],
)
def test_a_placeholder_is_no_label(tmp_path: Path, kind: str, placeholder: Any) -> None:
    if kind in ("tsv", "csv") and not isinstance(placeholder, str):
        placeholder = str(placeholder)
    file = tmp_path / f"a.{kind}"
    if kind == "parquet" and not isinstance(placeholder, str):
        WRITERS[kind](file, [("a", 1.0), ("b", placeholder), ("c", 2.0)])
    else:
        WRITERS[kind](file, [("a", "1"), ("b", placeholder), ("c", "2")])
    number = 2 if kind in ("jsonl", "parquet") else 3
    for task in (Classification(), Regression()):
        with pytest.raises(
            InputError, match=rf":{number}: .*label.*`missing_labels=drop` leaves out"
        ) as raised:
            list(task.examples(file))
        assert ("name all" in str(raised.value)) == (
            task.name == "classification" and isinstance(placeholder, str) and bool(placeholder)
        )
    with pytest.warns(DataWarning, match=rf"1 of 3 rows are left out: line {number}: "):
        examples = list(Classification(missing_labels="drop").examples(file))
    assert [example.text for example in examples] == ["a", "c"]
    if isinstance(placeholder, str) and placeholder:  # the remedy for one that is a class
        task = Classification(labels=("1", "2", placeholder))
        assert [example.label for example in task.examples(file)] == ["1", placeholder, "2"]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0, 1, 0], {"0": 2, "1": 2}),
        ([1.0, 0.0, 2.0, 0.0], {"0": 2, "1": 1, "2": 1}),
        ([True, False, True, True], {"false": 1, "true": 3}),
        ([0.5, 1.0, 0.5, 1.0], {"0.5": 2, "1.0": 2}),
    ],
    ids=["integers", "floats", "truth values", "fractions"],
)
def test_numbers_and_truth_values_are_the_same_classes_in_all_formats(
    tmp_path: Path, labels: list[Any], classes: dict[str, int]
) -> None:
    tasks = []
    for kind, write in WRITERS.items():
        write(tmp_path / f"a.{kind}", list(zip("abcd", labels, strict=True)))
        task, train, _ = read_examples(Classification(), tmp_path / f"a.{kind}", tmp_path / f"a.{kind}")
        assert count_classes(task, train) == classes
        tasks.append(task)
        for other in WRITERS:  # a model of one format reads the others
            if (tmp_path / f"a.{other}").exists():
                examples = list(task.examples(tmp_path / f"a.{other}"))
                assert count_classes(task, examples) == classes
    assert len({task.labels for task in tasks}) == 1


def test_a_model_whose_classes_are_floats_reads_integers(tmp_path: Path) -> None:
    _json_lines(tmp_path / "a.jsonl", [("a", 1), ("b", 0)])
    task = Classification(labels=("0.0", "1.0"))
    examples = list(task.examples(tmp_path / "a.jsonl"))
    assert [example.label for example in examples] == ["1.0", "0.0"]
    predictions = [ClassPrediction("1.0", 1.0, {}), ClassPrediction("0.0", 1.0, {})]
    assert task.score(examples, predictions)["accuracy"] == 1.0
    assert task.from_json({"label": 1}).label == "1.0"


def test_similar_classes_are_warned_of(tmp_path: Path) -> None:
    _lines("\t")(
        tmp_path / "a.tsv",
        [("a", " Pos"), ("b", "pos"), ("c", "POS "), ("d", "01"), ("e", "1"), ("f", "1.0")],
    )
    with pytest.warns(DataWarning) as warned:
        task, train, _ = read_examples(Classification(), tmp_path / "a.tsv", tmp_path / "a.tsv")
    assert [str(warning.message).partition(": ")[2] for warning in warned] == [
        f"the classes '01' and '1' differ only in spelling. If they are one class, write '1' for '01' "
        f"(first {tmp_path / 'a.tsv'}:5)",
        "the classes 'POS' and 'Pos' and 'pos' differ only in spelling. If they are one class, write 'POS' for "
        f"'Pos' (first {tmp_path / 'a.tsv'}:2) and 'pos' (first {tmp_path / 'a.tsv'}:3)",
    ]
    assert count_classes(task, train) == {"01": 1, "1": 2, "POS": 1, "Pos": 1, "pos": 1}


def test_similar_labels_of_one_text_name_the_spelling_to_keep(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("text\tlabels\na\tBill\nb\tbill,new\nc\tbill\n")
    with pytest.warns(DataWarning, match=rf"write 'bill' for 'Bill' \(first {file}:2\)$"):
        MultiLabel().fit_labels(list(MultiLabel().examples(file)))
    file.write_text(file.read_text().replace("Bill", "bill"))
    MultiLabel().fit_labels(list(MultiLabel().examples(file)))  # warnings are errors


@pytest.mark.parametrize(
    "other",
    ["pos it", "pos-it", "Pos_It", "pos_\u200bit", "ｐｏｓ_it"],
    ids=["space", "hyphen", "case", "unseen", "wide"],
)
def test_classes_that_look_alike_are_warned_of(tmp_path: Path, other: str) -> None:
    _lines("\t")(tmp_path / "a.tsv", [("a", "pos_it"), ("b", other), ("c", "true"), ("d", "1")])
    with pytest.warns(DataWarning, match="differ only in spelling") as warned:
        read_examples(Classification(), tmp_path / "a.tsv", tmp_path / "a.tsv")
    assert len(warned) == 2


def test_sets_and_tuples_that_pandas_wrote_are_labels(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": list("abcd"), "labels": [{"x"}, set(), ("x", "y"), ()]})
    table.to_csv(tmp_path / "a.csv", index=False)
    labels = [example.label for example in MultiLabel().examples(tmp_path / "a.csv")]
    assert labels == ["x", "", "x,y", ""]


def test_another_separator_of_labels_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabels\na\tx; y\nb\tx\n")
    examples = list(MultiLabel().examples(tmp_path / "a.tsv"))
    with pytest.warns(DataWarning, match=r"label 'x; y' has ';' .* say `multi-label\.separator=\";\"`"):
        MultiLabel().fit_labels(examples)
    task = with_settings(MultiLabel(), {"multi-label.separator": ";"})
    assert task.fit_labels(list(task.examples(tmp_path / "a.tsv"))).labels == ("x", "y")


def test_unknown_labels_are_told_together_and_can_be_left_out(tmp_path: Path) -> None:
    _lines(",")(tmp_path / "a.csv", [("a", "x"), ("b", "z"), ("c", "y"), ("d", "w")])
    with pytest.raises(
        InputError, match=r"a\.csv:3: unknown label 'z' \(the first of 2 bad rows: line 3: .*line 5: "
    ):
        list(Classification(labels=("x", "y")).examples(tmp_path / "a.csv"))
    with pytest.warns(
        DataWarning, match="2 of 4 rows are left out: line 3: unknown label 'z'; line 5: unknown"
    ):
        examples = list(Classification(labels=("x", "y"), skip_bad_rows=True).examples(tmp_path / "a.csv"))
    assert [example.label for example in examples] == ["x", "y"]


@pytest.mark.parametrize("task", [Regression, Ranking])
def test_bad_scores_are_told_together(tmp_path: Path, task: type[Any]) -> None:
    (tmp_path / "a.csv").write_text("text,query,passage,label\na,a,b,1\na,a,b,high\na,a,b,low\n")
    with pytest.raises(InputError, match=r":3: .*'high' is not .*2 bad rows"):
        list(task().examples(tmp_path / "a.csv"))


@given(
    st.lists(
        st.sampled_from(["1", "1.0", "1.00", "01", "-0", "0.0", "0", "true", "True", "x", "X", "2.5"]),
        min_size=1,
    )
)
def test_every_label_is_found_by_its_class(labels: list[str]) -> None:
    names = merge_labels(labels)
    classes = sorted(set(names.values()))
    assert all(find_class(label, classes) == names[label] for label in labels)


@pytest.mark.parametrize(
    ("labels", "without", "as_class"),
    [
        (["yes", "-", "no"], ["yes", "no"], '["yes", "-", "no"]'),
        (["yes", "-1.0", "no"], ["yes", "no"], '["yes", "-1", "no"]'),
        (["0", "-1", "1", "2"], ["0", "1", "2"], '["-1", "0", "1", "2"]'),
        (["0", "-100", "1"], ["0", "1"], '["-100", "0", "1"]'),
    ],
)
def test_labels_that_stand_for_none_are_refused_or_left_out(tmp_path, labels, without, as_class):
    rows = [(f"text {i}", label) for i, label in enumerate(labels * 2)]
    _lines("\t")(tmp_path / "a.tsv", rows)
    with pytest.raises(
        InputError, match=r"a\.tsv:3: the label is '-.*', which stands .*the first of 2 bad rows"
    ) as raised:
        list(Classification().examples(tmp_path / "a.tsv"))
    assert "`missing_labels=drop` leaves out such rows; if it is a class, name all: `" in str(raised.value)
    with pytest.warns(DataWarning, match=f"2 of {len(rows)} rows are left out"):
        examples = list(Classification(missing_labels="drop").examples(tmp_path / "a.tsv"))
    assert [example.label for example in examples] == without * 2
    named = with_settings(Classification(), read_dict(overrides=[f"classification.labels={as_class}"]))
    assert len(list(named.examples(tmp_path / "a.tsv"))) == len(rows)
    with pytest.raises(InputError, match=r"unknown label .-.*, which stands for none.*`missing_labels=drop`"):
        list(Classification(labels=tuple(without)).examples(tmp_path / "a.tsv"))
    with pytest.warns(DataWarning, match="2 of"):
        list(MultiLabel(label_column="label", missing_labels="drop").examples(tmp_path / "a.tsv"))


@pytest.mark.parametrize(
    "labels", [["-", "+"], ["-1", "+1"], ["-1", "1"], ["-2", "-1", "0", "2"], ["-1", "0", "1"]]
)
def test_minus_is_a_class_beside_its_opposite(tmp_path, labels):
    _lines("\t")(tmp_path / "a.tsv", [(label, label) for label in labels])
    with warnings.catch_warnings(record=True, category=DataWarning) as caught:
        warnings.simplefilter("always")
        assert [example.label for example in Classification().examples(tmp_path / "a.tsv")] == labels
    assert len(caught) == (labels == ["-1", "0", "1"])
    if caught:
        assert "-1 is a class beside 0 and 1. If it stands for no label, say" in str(caught[0].message)
        with pytest.warns(DataWarning, match="1 of 3 rows are left out"):
            list(Classification(labels=("0", "1"), missing_labels="drop").examples(tmp_path / "a.tsv"))


@pytest.mark.parametrize(
    ("task", "label"),
    [
        *((Classification(labels=("0", "1")), label) for label in ("-1", "-", "")),
        *((Classification(), label) for label in ("-1", "-")),
        (MultiLabel(label_column="label", labels=("x", "y")), "-1"),
    ],
)
def test_a_file_without_any_label_cannot_be_scored(tmp_path, task, label):
    _lines("\t")(tmp_path / "a.tsv", [("a", label), ("b", label)])
    for missing_labels in ("refuse", "drop"):
        with pytest.raises(
            InputError, match="No row has a label, to learn from or to score with; cloze predict"
        ):
            list(replace(task, missing_labels=missing_labels).examples(tmp_path / "a.tsv"))


def test_predictions_with_other_names_of_classes_are_warned_of(tmp_path):
    file = tmp_path / "p.jsonl"
    examples = [LabeledText("a", label="yes"), LabeledText("b", label="no")]
    for labels in (["maybe", "maybe"], ["yes", "1"], ["0", "1"]):
        file.write_text("".join(json.dumps({"label": label}) + "\n" for label in labels))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Classification().read_predictions(file, examples)
        assert bool(caught) == (labels == ["0", "1"])
    what = "p.jsonl: the predictions have none of the labels of the data: '0', '1' and 'no', 'yes'."
    assert what in str(caught[0].message)


def test_scores_of_minus_one_alone_are_none():
    examples = [LabeledText("a", label="-1.0", where=f"a.tsv:{line}") for line in (2, 3)]
    with pytest.raises(InputError, match=r"^a\.tsv: every score is -1, which stands for none"):
        Regression(minimum=0.0, maximum=5.0).check_scorable(examples)
    Regression(minimum=-1.0, maximum=1.0).check_scorable(examples)


def test_the_printed_remedies_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.csv"
    _lines(",")(file, [("a", "x"), ("b", "nan"), ("c", "y"), *[("d", "x")] * 20])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(file), "--validate"]
    assert main(command) == 2
    assert "--missing-labels drop leaves out such rows" in capsys.readouterr().err
    assert main([*command, "--missing-labels", "drop"]) == 0
    printed = capsys.readouterr()
    assert "classes          x 1, y 1" in printed.out
    assert "warning: " in printed.err
    assert "1 of 23 rows are left out: line 3: 'label' is 'nan'" in printed.err
    assert "2 classes: x (" in printed.err
    assert main([*command, "--set", 'classification.labels=["x", "y", "nan"]', "--quiet"]) == 0
    with file.open("a") as stream:
        stream.write("e\n")
    assert main([*command, "--skip-bad-rows", "--quiet"]) == 0
    assert "2 of 24 rows are left out: line 3: " in capsys.readouterr().err


def test_few_examples_to_score_on_are_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"{number}", "xy"[number % 2]) for number in range(250)]
    _lines(",")(tmp_path / "a.csv", rows)
    _lines(",")(tmp_path / "dev.csv", rows[:100])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(tmp_path / "a.csv"), "--validate"]
    assert main(command) == 0
    warning = "warning: 25 examples to score on: scores are uncertain by up to ±0.20 (95%)."
    assert warning in capsys.readouterr().err
    assert main([*command, "--dev", str(tmp_path / "dev.csv")]) == 0
    assert "uncertain" not in capsys.readouterr().err


SETS = [["neg", "film"], ["pos"], []]
FLAGS = [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
NAMES = ("film", "neg", "pos")


def _read_sets(tmp_path: Path, name: str, content: str, **settings: Any) -> list[set[str]]:
    (tmp_path / name).write_text(content)
    examples = list(MultiLabel(**settings).examples(tmp_path / name))
    return [{label for label in (example.label or "").split(",") if label} for example in examples]


@pytest.mark.parametrize(
    "write",
    [
        ",".join,
        ", ".join,
        json.dumps,
        str,
        lambda labels: str(tuple(labels)) if len(labels) > 1 else str(labels),
        lambda labels: str(set(labels)) if labels else "[]",
    ],
    ids=["commas", "commas and spaces", "JSON", "Python list", "Python tuple", "Python set"],
)
def test_labels_in_one_cell_are_read_as_they_are_written(
    tmp_path: Path, write: Callable[[list[str]], str]
) -> None:
    content = "text\tlabels\n" + "".join(f"a\t{write(labels)}\n" for labels in SETS)
    assert _read_sets(tmp_path, "a.tsv", content) == list(map(set, SETS))


@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        lambda flags: f"[{' '.join(map(str, flags))}]",
        lambda flags: f"[{'. '.join(map(str, flags))}.]",
    ],
    ids=["list", "NumPy integers", "NumPy floats"],
)
def test_zeros_and_ones_in_one_cell_are_the_named_labels(
    tmp_path: Path, write: Callable[[list[int]], str]
) -> None:
    content = "text\tlabels\n" + "".join(f"a\t{write([flags[1], flags[0], flags[2]])}\n" for flags in FLAGS)
    assert _read_sets(tmp_path, "a.tsv", content, labels=("neg", "film", "pos")) == list(map(set, SETS))
    rows = "".join(json.dumps({"text": "a", "labels": flags}) + "\n" for flags in FLAGS)
    assert _read_sets(tmp_path, "a.jsonl", rows, labels=NAMES) == list(map(set, SETS))


@pytest.mark.parametrize("values", [("0", "1"), ("0.0", "1.0"), ("False", "True")])
def test_a_column_of_zeros_and_ones_per_label(tmp_path: Path, values: tuple[str, str]) -> None:
    content = "text,film,neg,pos\n" + "".join(
        f"a,{','.join(values[flag] for flag in flags)}\n" for flags in FLAGS
    )
    assert _read_sets(tmp_path, "a.csv", content, label_columns=NAMES) == list(map(set, SETS))
    task, train, _ = read_examples(MultiLabel(label_columns=NAMES), tmp_path / "a.csv", tmp_path / "a.csv")
    assert task.labels == NAMES
    assert count_classes(task, train) == {"film": 1, "neg": 1, "pos": 1}


def test_a_missing_column_of_labels_names_those_of_zeros_and_ones(tmp_path: Path) -> None:
    rows = [
        {"id": 1, "text": "a", "stars": 4, "film": 0, "neg": 1},
        {"id": 2, "text": "b", "film": 1, "neg": 1},
    ]
    (tmp_path / "a.csv").write_text("id,text,stars,film,neg\n1,a,4,0,1\n")
    (tmp_path / "a.jsonl").write_text(json.dumps(rows[0]))
    for source in (tmp_path / "a.csv", tmp_path / "a.jsonl", rows_from_memory(rows, "rows")):
        with pytest.raises(InputError, match=r"""; say `multi-label\.label_columns=\["film", "neg"\]`\.$"""):
            list(MultiLabel().examples(source))
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"], "film": [0]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"or columns of 0 and 1 with `multi-label\.label_columns=\["):
        list(MultiLabel().examples(tmp_path / "a.parquet"))
    (tmp_path / "b.csv").write_text("text,number\na,1\n")
    with pytest.raises(InputError, match=r"; say which it is with `label_column=NAME`\.$"):
        list(MultiLabel().examples(tmp_path / "b.csv"))


@pytest.mark.parametrize("kind", WRITERS)
def test_scores_with_decimal_commas(tmp_path: Path, kind: str) -> None:
    if kind == "tsv":
        content = [("a", "3"), ("b", "0,5"), ("c", "-1,25")]
        expected = ["3", "0.5", "-1.25"]
    else:
        content, expected = [("a", "0,125"), ("b", "4,5")], ["0.125", "4.5"]
    WRITERS[kind](tmp_path / f"a.{kind}", content)
    assert [example.label for example in Regression().examples(tmp_path / f"a.{kind}")] == expected


def test_commas_that_may_be_decimal_or_not_are_refused_and_the_remedy_works(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    WRITERS["csv"](file, [("a", "3"), ("b", "1,250")])
    with pytest.raises(InputError, match=r"a\.csv:3: score '1,250' may .* `regression\.decimal=,") as raised:
        list(Regression().examples(file))
    setting = str(raised.value).partition("`")[2].removesuffix("`.")
    task = with_settings(Regression(), read_dict(overrides=[setting]))
    assert [example.label for example in task.examples(file)] == ["3", "1.250"]
    for mixed, error in (
        ("1.5", r"a\.csv:2: score '0,5' has a comma, and others have a point, such as '1\.5'"),
        ("1,2,3", r"a\.csv:3: score '1,2,3' is not a number"),
    ):
        WRITERS["csv"](file, [("a", "0,5"), ("b", mixed)])
        with pytest.raises(InputError, match=error):
            list(Regression().examples(file))


def test_choices_are_a_list_in_one_cell(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('prompt;choices;label\na;"[""b, c"", ""d""]";1\ne;"[\'f\', \'g\']";0\n')
    examples = list(CustomMultipleChoice().examples(tmp_path / "a.csv"))
    assert [(example.choices, example.label) for example in examples] == [(("b, c", "d"), 1), (("f", "g"), 0)]
    with (tmp_path / "a.csv").open("a") as stream:
        stream.write("h;i or j;0\n")
    with pytest.raises(InputError, match=r"a\.csv:4: 'choices' is \"i or j\", not a list of texts"):
        list(CustomMultipleChoice().examples(tmp_path / "a.csv"))
    with pytest.warns(DataWarning, match="1 of 3 rows are left out: line 4: "):
        assert list(CustomMultipleChoice(skip_bad_rows=True).examples(tmp_path / "a.csv")) == examples
