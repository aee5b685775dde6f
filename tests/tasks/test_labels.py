"""What is printed of labels: remedies that work, counts, and few examples."""

from cloze.cli import main
from helpers import write_rows


def _write(path, rows):
    write_rows(path, [{"text": text, "label": label} for text, label in rows])


def test_the_printed_remedies_work(tmp_path, capsys):
    file = tmp_path / "a.csv"
    _write(file, [("a", "x"), ("b", ""), ("c", "y"), *[("d", "x")] * 20])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(file), "--validate"]
    assert main(command) == 2
    assert "--missing-labels drop leaves out such rows" in capsys.readouterr().err
    assert main([*command, "--missing-labels", "drop"]) == 0
    printed = capsys.readouterr()
    assert "classes          x 1, y 1" in printed.out
    assert "warning: " in printed.err
    assert "1 of 23 rows are left out: line 3: the cell 'label' is empty" in printed.err
    assert "2 classes: x (" in printed.err
    with file.open("a") as stream:
        stream.write("e\n")
    assert main([*command, "--skip-bad-rows", "--quiet"]) == 0
    assert "2 of 24 rows are left out: line 3: " in capsys.readouterr().err


def test_few_examples_to_score_on_are_warned_of(tmp_path, capsys):
    rows = [(f"{number}", "xy"[number % 2]) for number in range(250)]
    _write(tmp_path / "a.csv", rows)
    _write(tmp_path / "dev.csv", rows[:100])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(tmp_path / "a.csv"), "--validate"]
    assert main(command) == 0
    warning = "warning: 25 examples to score on: scores are uncertain by up to ±0.20 (95%)."
    assert warning in capsys.readouterr().err
    assert main([*command, "--dev", str(tmp_path / "dev.csv")]) == 0
    assert "uncertain" not in capsys.readouterr().err
