"""`cloze finetune` and `cloze predict`: output, exit codes and errors."""

import io
import json
import shlex
from pathlib import Path

import pytest
from samples import Cloze, save_film_encoder

from cloze.cli import main
from cloze.model_paths import resolve_checkpoint
from hub_server import Hub

NANO = "--set max_seq_length=8 --set micro_batch_tokens=64 --set device=cpu --learning-rate 0.01"
COLUMNS = "--text-column words --label-column mark"


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an encoder, labeled data and a fine-tuned run."""
    directory = tmp_path_factory.mktemp("films")
    save_film_encoder(directory / "model")
    rows = [
        f"{kind}\t{thing} {kind}\n" for kind in ("good", "bad") for thing in ("film", "book", "book film")
    ]
    (directory / "data.tsv").write_text("mark\twords\n" + "".join(rows * 5))
    data = f"-d {directory}/data.tsv {COLUMNS}"
    command = (
        f"finetune classification -m {directory}/model {data} -o {directory}/run --epochs 20 {NANO} --quiet"
    )
    assert main(shlex.split(command)) == 0
    return directory


def labels(lines: str) -> list[str]:
    return [json.loads(line)["label"] for line in lines.splitlines()]


def test_predictions_are_json_lines_on_stdout(films: Path, cloze: Cloze) -> None:
    printed = cloze(f"predict classification -m {films}/run {films}/data.tsv")
    assert labels(printed.out) == (["good"] * 3 + ["bad"] * 3) * 5
    assert all(row["probabilities"][row["label"]] == row["probability"] for row in printed.rows)
    assert "predicting" in printed.err


@pytest.mark.slow
def test_at_most_top_k_classes_are_printed(films: Path, cloze: Cloze) -> None:
    predict = f"predict classification -m {films}/run {films}/data.tsv --quiet"
    expected = cloze(predict).rows
    rows = cloze(f"{predict} --top-k 1").rows
    assert [row["probabilities"] for row in rows] == [{row["label"]: row["probability"]} for row in expected]
    assert cloze(f"{predict} -k 5").rows == [
        row | {"probabilities": dict(sorted(row["probabilities"].items(), key=lambda item: -item[1]))}
        for row in expected
    ]
    assert "--top-k: 0 is less than 1" in cloze(f"{predict} --top-k 0", code=2).err
    explained = cloze(f"{predict} --top-k 1 --explain").rows
    assert all(row["explanation"]["explained"] == row["label"] for row in explained)


def test_predictions_for_stdin_go_to_a_file(
    films: Path, cloze: Cloze, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"film good\nbook bad\n")))
    output = tmp_path / "new" / "predictions.jsonl"
    command = f"predict classification -m {films}/run - -o {output} --quiet"
    assert cloze(command) == ("", "")
    assert labels(output.read_text()) == ["good", "bad"]
    assert "already exists" in cloze(command, code=2).err


def test_lone_surrogates_are_escaped(films: Path, tmp_path: Path, cloze: Cloze) -> None:
    (tmp_path / "in.jsonl").write_text('{"words": "good fi\\ud83dlm"}\n{"words": "bad"}\n')
    page, output = tmp_path / "page.html", tmp_path / "out.jsonl"
    predict = f"predict classification -m {films}/run {tmp_path}/in.jsonl --quiet"
    cloze(f"{predict} --explain --page {page} -o {output}")
    assert labels(output.read_text()) == ["good", "bad"]
    assert "\\ud83d" in output.read_text()
    assert "fi\ufffdlm" in page.read_text()


@pytest.mark.protected
def test_a_failed_prediction_leaves_no_file(films: Path, tmp_path: Path, cloze: Cloze) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"good\n\xff\n")
    printed = cloze(f"predict classification -m {films}/run {source} -o {tmp_path}/out.jsonl --quiet", code=2)
    assert printed.err.startswith(f"error: {source}:2: not UTF-8 at byte 1")
    assert list(tmp_path.iterdir()) == [source]


def test_an_imported_checkpoint_keeps_its_task_settings(films: Path, tmp_path: Path, cloze: Cloze) -> None:
    checkpoint = resolve_checkpoint(films / "run", "best")
    cloze(f"import {checkpoint} -o {tmp_path}/copy --quiet")
    of_run, of_copy = (
        cloze(f"predict classification {films}/data.tsv -m {model} --quiet").out
        for model in (films / "run", tmp_path / "copy")
    )
    assert of_run == of_copy


def test_scores_are_text_or_json(films: Path, tmp_path: Path, cloze: Cloze) -> None:
    data = f"-m {films}/run -d {films}/data.tsv {COLUMNS} --epochs 1 {NANO}"
    result = cloze(f"finetune classification {data} -o {tmp_path}/a --json --quiet").json
    assert set(result) >= {"run", "data", "examples", "accuracy", "macro_f1", "majority_accuracy"}
    text = cloze(f"finetune classification -o {tmp_path}/a --resume --quiet").out
    assert f"accuracy          {result['accuracy']:.4f}" in text


def test_printing_settings_downloads_nothing(hub: Hub, cloze: Cloze) -> None:
    settings = cloze("finetune classification -m hf://org/model -d D --print-config").out
    assert 'model = "hf://org/model"' in settings
    assert not hub.requests


def test_printed_settings_are_a_recipe_of_the_same_settings(tmp_path: Path, cloze: Cloze) -> None:
    recipe, command = tmp_path / "mine.toml", f"finetune classification -o {tmp_path}/a --print-config"
    settings = cloze(f"{command} -m M -d D --epochs 7 --set classification.pair_column=then").out
    recipe.write_text(settings)
    assert "epochs = 7" in settings
    assert cloze(f"{command} --config {recipe}").out == settings
    assert not (tmp_path / "a").exists()


WRONG = {
    "finetune clasification": "no task 'clasification'. Did you mean classification",
    "finetune classification": "the flag --model is missing",
    "finetune classification -m {films}/model": "the flag --train is missing",
    f"finetune classification -m {{films}}/model -d {{films}}/data.tsv --text-column word {NANO}": (
        "data.tsv:2: no column 'word'. Did you mean 'words'"
    ),
    "finetune classification --set optimizer.learningrate=1": (
        "unknown key optimizer.learningrate. Did you mean optimizer.learning_rate"
    ),
    "finetune classification --resume --epochs 3": "the flag --model is missing",
    "finetune classification --resume --dry-run": "--dry-run: cannot be combined with --resume",
}


@pytest.mark.protected
@pytest.mark.parametrize("command", WRONG)
def test_wrong_input_gives_one_line(films: Path, tmp_path: Path, cloze: Cloze, command: str) -> None:
    printed = cloze(f"{command.format(films=films)} -o {tmp_path}/out --quiet", code=2)
    assert WRONG[command] in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert not (tmp_path / "out").exists()
