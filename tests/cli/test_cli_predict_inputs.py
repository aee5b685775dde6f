"""`cloze predict` with texts as arguments, other columns of the input, and answers that are left out."""

import csv
from pathlib import Path

import pytest
from samples import FILM_TOKENS

import cloze as package
from cloze.errors import InputError
from helpers import read_rows, task_of
from tiny_models import write_finetuned


def test_texts_are_predicted_as_those_of_a_file(samples, tmp_path, cloze):
    texts = ["He said so.", "She went to the sea, and he"]
    (tmp_path / "lines.txt").write_text("\n".join(texts))
    of_file = cloze(f"predict -m {{classifier}} {tmp_path}/lines.txt --quiet").rows
    assert cloze("predict classification -m {classifier} --json --quiet", *texts).rows == of_file
    printed = cloze("predict -m {classifier} --quiet", *texts).out.splitlines()
    assert printed[::2] == texts
    best = max(of_file[0]["probabilities"].items(), key=lambda item: item[1])
    assert printed[1].startswith(f"  {best[0]} {best[1]:.3f}  ")
    rows = package.predict_file(texts[0], texts[1:], model=samples.classifier)
    assert [row["label"] for row in rows] == [row["label"] for row in of_file]


REFUSED = {
    "good": "good: no such file; a text has white space or a final mark",
    "reviews.tsvv": "reviews.tsvv: no such file",
    "'my reviews.tsv'": "my reviews.tsv: no such file",
    "a fine film": "a: no such file; a text has white space or a final mark",
    "'A fine film.' {table}": "{table}: names a file, beside other inputs. One file is read at a time",
    "clasification {table}": "no task 'clasification'. Did you mean classification",
    "'A film.' -o {tmp}/a.jsonl --csv-safe": "--csv-safe: is for tables that spreadsheets open",
    "'A film.' --csv-safe": "--csv-safe: is for tables that spreadsheets open",
}


@pytest.mark.parametrize("words", REFUSED)
def test_inputs_that_are_unclear_are_refused(words, error_line, paths):
    assert REFUSED[words].format(**paths) in error_line(f"predict -m {{classifier}} {words}")


def test_a_text_of_a_file_of_this_name_is_read_as_the_file(samples, tmp_path, cloze, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("He said so.").write_text("She did\nHe did\n")
    printed = cloze("predict -m {classifier}", "He said so.")
    assert [row["text"] for row in printed.rows] == ["She did", "He did"]


def test_a_model_of_pairs_asks_for_rows(tmp_path):
    task = task_of("classification", labels=("yes", "no"), pair_column="pair")
    model = write_finetuned(tmp_path / "model", task, FILM_TOKENS)
    message = r'reads text and pair of each example. Write rows such as {"text": "…", "pair"'
    with pytest.raises(InputError, match=message):
        package.predict_file("A text.", model=model)


def test_other_columns_are_kept_and_formulas_are_texts(samples, tmp_path, cloze):
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [
                ["label", "=sum", "text", "row", "note", "probability_2"],
                ["1", "@x", "=he said", "7", "-1", "high"],
                ["0", "\ty", "\rShe did", "8", "+plain text", ""],
            ]
        )
    for flags in ("", "--csv-safe"):
        cloze(
            f"predict -m {{classifier}} {tmp_path}/in.csv -o {tmp_path}/out.csv --overwrite --quiet {flags}"
        )
        first, second = read_rows(tmp_path / "out.csv")
        safe = "'" if flags else ""
        names = ["row", "text", "label", "probability", "probability_0", "probability_1"]
        names += ["input_label", f"{safe}=sum", "input_row", "note", "input_probability_2"]
        assert list(first) == names
        assert (first["row"], first["input_row"], first["input_label"]) == ("1", "7", "1")
        assert (first["text"], first["note"]) == (f"{safe}=he said", f"{safe}-1")
        assert (first[f"{safe}=sum"], second[f"{safe}=sum"]) == (f"{safe}@x", f"{safe}\ty")
        assert (second["text"], second["note"]) == (f"{safe}\rShe did", f"{safe}+plain text")
        assert float(first["probability"]) == float(first[f"probability_{first['label']}"]) > 0.5
