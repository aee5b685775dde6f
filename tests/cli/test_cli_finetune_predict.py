"""`cloze finetune` and `cloze predict` as typed: what is printed where, exit codes, one line for what is wrong."""

import io
import json
from pathlib import Path

import pytest
import torch

from cloze import artifacts
from cloze.cli import main
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import write_model_files
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "book")
NANO = (
    "--set",
    "max_seq_length=8",
    "--set",
    "micro_batch_tokens=64",
    "--set",
    "device=cpu",
    "--learning-rate",
    "0.01",
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a model, data and a fine-tuned run."""
    place = tmp_path_factory.mktemp("place")
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=16,
        initializer_range=0.2,
    )
    with artifacts.write_directory(place / "model", kind="checkpoint") as directory:
        encoder = BertModel(config, generator=torch.Generator().manual_seed(1))
        write_model_files(directory, encoder, Tokenizer.from_pieces(PIECES))
    rows = [
        f"{kind}\t{thing} {kind}\n" for kind in ("good", "bad") for thing in ("film", "book", "book film")
    ] * 5
    (place / "data.tsv").write_text("mark\twords\n" + "".join(rows))
    columns = ("--text-column", "words", "--label-column", "mark")
    arguments = [
        "finetune",
        "classification",
        "-m",
        str(place / "model"),
        "-d",
        str(place / "data.tsv"),
        *columns,
    ]
    assert main([*arguments, "-o", str(place / "run"), "--epochs", "20", *NANO, "--quiet"]) == 0
    return place


def test_predictions_are_json_lines_on_stdout(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "classification", "-m", str(place / "run"), str(place / "data.tsv")]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [row["label"] for row in rows] == (["good"] * 3 + ["bad"] * 3) * 5
    assert all(row["probabilities"][row["label"]] == row["probability"] for row in rows)
    assert "predicting" in printed.err


def test_plain_text_comes_from_stdin_too_and_goes_to_a_file(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"film good\nbook bad\n")))
    output = tmp_path / "new" / "predictions.jsonl"
    command = ["predict", "classification", "-m", str(place / "run"), "-", "-o", str(output), "--quiet"]
    assert main(command) == 0
    assert capsys.readouterr() == ("", "")
    assert [json.loads(line)["label"] for line in output.read_text().splitlines()] == ["good", "bad"]
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err


def test_half_a_character_loses_no_prediction(place: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"words": "good fi\\ud83dlm"}\n{"words": "bad"}\n')
    page, output = tmp_path / "page.html", tmp_path / "out.jsonl"
    given = ["predict", "classification", "-m", str(place / "run"), str(tmp_path / "in.jsonl"), "--quiet"]
    assert main([*given, "--explain", "--page", str(page), "-o", str(output)]) == 0
    assert [json.loads(line)["label"] for line in output.read_text().splitlines()] == ["good", "bad"]
    assert "\\ud83d" in output.read_text()
    assert "fi\ufffdlm" in page.read_text()


def test_a_failed_prediction_leaves_no_file(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_bytes(b"good\n\xff\n")
    command = [
        "predict",
        "classification",
        "-m",
        str(place / "run"),
        str(source),
        "-o",
        str(output),
        "--quiet",
    ]
    assert main(command) == 2
    assert capsys.readouterr().err.startswith(f"error: {source}:2: not UTF-8 at byte 1")
    assert list(tmp_path.iterdir()) == [source]


def test_an_imported_checkpoint_knows_its_task(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = resolve_checkpoint(place / "run", "best")
    assert main(["import", str(source), "-o", str(tmp_path / "copy"), "--quiet"]) == 0
    capsys.readouterr()
    printed = []
    for model in (place / "run", tmp_path / "copy"):
        # the column is a setting of the task
        assert main(["predict", "classification", str(place / "data.tsv"), "-m", str(model), "--quiet"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_scores_are_printed_or_given_as_json(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = ["finetune", "classification", "-m", str(place / "run"), "-d", str(place / "data.tsv")]
    named = [*base, "--text-column", "words", "--label-column", "mark", "--epochs", "1", *NANO]
    assert main([*named, "-o", str(tmp_path / "a"), "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) >= {"run", "data", "examples", "accuracy", "macro_f1", "majority_accuracy"}
    assert main(["finetune", "classification", "-o", str(tmp_path / "a"), "--resume", "--quiet"]) == 0
    assert f"accuracy          {result['accuracy']:.4f}" in capsys.readouterr().out


def test_print_config_prints_what_runs(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    base = ["finetune", "classification", "-o", str(tmp_path / "a"), "--print-config"]
    assert (
        main([*base, "-m", "M", "-d", "D", "--epochs", "7", "--set", "classification.pair_column=then"]) == 0
    )
    recipe.write_text(capsys.readouterr().out)
    assert "epochs = 7" in recipe.read_text()
    assert main([*base, "--config", str(recipe)]) == 0
    assert capsys.readouterr().out == recipe.read_text()
    assert not (tmp_path / "a").exists()


WRONG = {
    "no such task": (["finetune", "clasification"], "no task 'clasification'. Did you mean classification"),
    "no data": (["finetune", "classification"], "the flag --model is missing"),
    "a model alone": (["finetune", "classification", "-m", "MODEL"], "the flag --data is missing"),
    "a column that is not there": (
        ["finetune", "classification", "-m", "MODEL", "-d", "DATA", "--text-column", "word", *NANO],
        "data.tsv:2: no column 'word'. Did you mean 'words'",
    ),
    "a setting that is not there": (
        ["finetune", "classification", "--set", "optimizer.learningrate=1"],
        "unknown key optimizer.learningrate. Did you mean optimizer.learning_rate",
    ),
    "resume with settings": (
        ["finetune", "classification", "--resume", "--epochs", "3"],
        "run's own settings",
    ),
    "resume and look": (
        ["finetune", "classification", "--resume", "--dry-run"],
        "--dry-run: does not go with --resume",
    ),
    "steps for what is computed": (
        ["finetune", "feature-classification", "-m", "MODEL", "-d", "DATA", "--set", "epochs=3"],
        "feature-classification: is solved at once: it has no use for epochs. Leave it out",
    ),
    "several runs of what is computed": (
        ["finetune", "feature-classification", "-m", "MODEL", "-d", "DATA", "--seeds", "3"],
        "feature-classification: is the same for every seed and rate. Leave out --seeds and --grid",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_wrong_is_said_in_one_line(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    arguments, message = WRONG[kind]
    places = {"MODEL": str(place / "model"), "DATA": str(place / "data.tsv")}
    command = [places.get(argument, argument) for argument in arguments]
    assert main([*command, "-o", str(tmp_path / "out"), "--quiet"]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "out").exists()
