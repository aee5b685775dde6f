"""The first hour of a new user: from messy notes of a hospital to a classifier that answers over HTTP.

Every step is made in the shell, as the messages say, and then in Python, with the same scores.
"""

import csv
import json
import random
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import pytest
from samples import Cloze, command_runner
from server_process import ServerProcess

import cloze
from cloze.errors import DataWarning
from cloze.tokenization.loading import load_tokenizer

KINDS = {
    "emergency": ("Crushing chest pain and short of breath {}.", "Found unconscious, bleeding heavily {}."),
    "urgent": ("High fever and a stiff neck {}.", "Deep cut at the hand, needs stitches {}."),
    "routine": ("Wants a new prescription, no complaints {}.", "Follow-up, the wound healed well {}."),
}
WHEN = ("since this morning", "for two days", "since yesterday", "for a week", "on and off")
DOCTORS = ("Dr. Noël", "Dr. Müller", "Dr. Smith; on call")
SETTINGS = ("--epochs=3", "--learning-rate=3e-4", "--set=precision=float32", "--set=device=cpu")
COLUMNS = ("--text-column=note", "--label-column=triage")


class Case(NamedTuple):
    case: str
    note: str
    triage: str


def make_cases(count: int, seed: int) -> list[Case]:
    """Return notes with their triage, a third of each kind."""
    draw = random.Random(seed)
    cases = []
    for number in range(count):
        kind = list(KINDS)[number % 3]
        note = f"{draw.choice(KINDS[kind]).format(draw.choice(WHEN))} {draw.choice(DOCTORS)}"
        cases.append(Case(f"{seed}-{number:03}", note, kind))
    return cases


def write_csv(path: Path, cases: list[Case], encoding: str = "utf-8") -> None:
    """Write a table as spreadsheets of many countries do: semicolons, and line ends of Windows."""
    with path.open("w", encoding=encoding, newline="") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerows([Case._fields, *cases])


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Cloze:
    return command_runner(capsys)


@pytest.fixture
def hospital(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory: notes to learn from, with the usual faults, and notes of another week with two wrong
    labels."""
    monkeypatch.chdir(tmp_path)
    cases = make_cases(96, seed=1)
    cases[4] = cases[4]._replace(triage="Urgent")
    cases[20] = cases[20]._replace(triage="N/A")
    cases[30] = cases[30]._replace(triage="")
    write_csv(tmp_path / "notes.csv", cases, encoding="latin-1")
    later = make_cases(30, seed=2)
    for number in (7, 18):
        wrong = {"emergency": "routine", "urgent": "emergency", "routine": "emergency"}
        later[number] = later[number]._replace(triage=wrong[later[number].triage])
    write_csv(tmp_path / "later.csv", later)
    return tmp_path


@pytest.mark.timeout(600)  # about 30 seconds of one core
@pytest.mark.slow
def test_the_first_hour(hospital: Path, shell: Cloze) -> None:
    clean_the_table(hospital, shell)
    result = train(hospital, shell)
    compare_with_baselines(hospital, shell)
    find_wrong_labels(shell)
    explain_an_answer(hospital, shell, result.model)
    export(hospital, shell, result.model)
    serve(result.model)


def clean_the_table(hospital: Path, shell: Cloze) -> None:
    """Follow each message until the data are valid."""
    command = "finetune classification -m cloze-mini -d notes.csv -o triage --validate"
    message = shell(command, code=2).err
    assert "notes.csv:2: not UTF-8 at byte" in message
    assert "iconv -f latin1 -t utf8 OLD > NEW" in message
    converted = subprocess.run(
        ["iconv", "-f", "latin1", "-t", "utf8", "notes.csv"], capture_output=True, check=True
    )
    (hospital / "notes.csv").write_bytes(converted.stdout)

    message = shell(command, code=2).err
    assert "no column 'text'. There are 'case', 'note', 'triage'; say which it is with" in message
    command += f" {' '.join(COLUMNS)}"
    message = shell(command, code=2).err
    assert "notes.csv:32: the cell 'triage' is empty" in message
    assert "--missing-labels drop" in message

    printed = shell(f"{command} --missing-labels drop")
    assert "2 of 96 rows are left out" in printed.err
    assert "Urgent 1" in printed.out
    notes = (hospital / "notes.csv").read_text("utf-8").replace(";Urgent", ";urgent")
    (hospital / "notes.csv").write_text(notes, "utf-8", newline="")
    printed = shell(f"{command} --missing-labels drop")
    assert "the data are valid" in printed.out
    assert "classes          emergency 28, routine 29, urgent 28" in printed.out


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, as a user of Python reads them."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter=";"))


def train(hospital: Path, shell: Cloze) -> Any:
    """Fine-tune in the shell and in Python, on a file and on rows in memory; return the run of Python."""
    command = f"finetune classification -m cloze-mini -d notes.csv -o triage --missing-labels drop {' '.join(COLUMNS)}"
    printed = shell(command, *SETTINGS)
    assert printed.out.startswith("wrote triage\n  accuracy ")
    with pytest.warns(DataWarning, match="2 of 96 rows are left out"):
        result = cloze.finetune(
            "classification",
            train=read_rows(hospital / "notes.csv"),
            model="cloze-mini",
            output="triage-of-python",
            text_column="note",
            label_column="triage",
            missing_labels="drop",
            epochs=3,
            learning_rate=3e-4,
            precision="float32",
            device="cpu",
        )
    for name, value in result.scores.items():
        assert f"  {name:<17} {value:.4f}" in printed.out
    assert result.scores["accuracy"] > 0.9
    assert result.model.labels == ("emergency", "routine", "urgent")
    return result


def compare_with_baselines(hospital: Path, shell: Cloze) -> None:
    flags = f"-d notes.csv --dev later.csv --missing-labels drop {' '.join(COLUMNS)}"
    printed = shell(f"baseline classification {flags} --json").json
    columns = {"text_column": "note", "label_column": "triage", "missing_labels": "drop"}
    train, dev = (read_rows(hospital / name) for name in ("notes.csv", "later.csv"))
    with pytest.warns(DataWarning, match="2 of 96 rows are left out"):
        in_python = cloze.baseline("classification", train=train, dev=dev, **columns)
    assert [row["scores"] for row in printed["baselines"]] == [row.scores for row in in_python]
    assert printed["examples"] == in_python.num_examples == 30


def find_wrong_labels(shell: Cloze) -> None:
    """Evaluate: scores, the confusion matrix, and the wrong answers, which are wrong labels here."""
    printed = shell("evaluate -m triage -d later.csv --errors wrong.csv --json").json
    result = cloze.evaluate(model="triage-of-python", data=Path("later.csv"))
    assert result.scores == pytest.approx({name: printed[name] for name in result.scores}, abs=1e-12)
    assert result.breakdown is not None
    assert printed["confusion"] == result.breakdown.confusion
    with Path("wrong.csv").open(encoding="utf-8", newline="") as stream:
        wrong = list(csv.DictReader(stream))
    assert [(row["row"], row["gold"]) for row in wrong] == [
        (str(row["row"]), row["gold"]) for row in result.wrong_answers
    ]
    assert {"8", "19"} <= {row["row"] for row in wrong}
    text = shell("evaluate -m triage -d later.csv", "--overwrite").out
    assert "confusion matrix: rows are gold, columns predicted" in text


def explain_an_answer(hospital: Path, shell: Cloze, classifier: Any) -> None:
    """Predict and explain; the same answers and words in Python."""
    (hospital / "new.txt").write_text("Bleeding heavily since this morning.\nA new prescription, please.\n")
    shell("predict -m triage new.txt -o answers.csv")
    with Path("answers.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    texts = [row["text"] for row in rows]
    answers = classifier(texts)
    assert [row["label"] for row in rows] == [answer.label for answer in answers] == ["emergency", "routine"]
    assert [float(row["probability"]) for row in rows] == pytest.approx(
        [answer.probability for answer in answers], abs=1e-6
    )
    printed = shell("predict -m triage new.txt --explain --page why.html")
    assert printed.out == ""
    assert "wrote why.html: 2 texts" in printed.err
    explained = cloze.explain(texts, model=classifier, output="why-of-python.html")
    assert [word.word for word in explained[0].words][:2] == ["Bleeding", "heavily"]
    shown = [Path(name).read_text("utf-8").count("heavily") for name in ("why.html", "why-of-python.html")]
    assert shown[0] == shown[1] > 0


def export(hospital: Path, shell: Cloze, classifier: Any) -> None:
    """Export; ONNX Runtime answers as the model does."""
    shell("export triage -o graph")
    cloze.export_model("triage-of-python", output="graph-of-python")
    graphs = [hospital / folder / "model.onnx" for folder in ("graph", "graph-of-python")]
    encoding = load_tokenizer(hospital / "graph").encode("Bleeding heavily since this morning.")
    ids = encoding.input_ids
    logits = []
    for graph in graphs:
        session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        values = {"input_ids": [ids], "attention_mask": [[1] * len(ids)], "token_type_ids": [[0] * len(ids)]}
        (output,) = session.run(["logits"], {item.name: values[item.name] for item in session.get_inputs()})
        logits.append(output[0])
    assert logits[0].tolist() == pytest.approx(logits[1].tolist(), abs=1e-4)
    assert classifier.labels[logits[0].argmax()] == "emergency"


def serve(classifier: Any) -> None:
    """Ask a server; its scores are those of the model."""
    text = "Bleeding heavily since this morning."
    server = ServerProcess("-m", "triage", "--quiet")
    try:
        answer = server.post("/predict", inputs=text)
    finally:
        server.end()
    assert answer.status_code == 200
    best = max(answer.json(), key=lambda entry: entry["score"])
    expected = classifier(text)
    assert best["label"] == expected.label
    assert best["score"] == pytest.approx(expected.probability, abs=1e-5)
    assert json.loads(Path("triage/scores.json").read_text("utf-8"))["accuracy"] > 0.9
