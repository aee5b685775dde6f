"""`cloze tasks`, `evaluate`, `score`, and finetune's --validate, --seeds and recipes, as typed."""

import json
from pathlib import Path

import pytest
import torch

from cloze import artifacts
from cloze.cli import main
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import write_model_files
from cloze.tasks.config import load_finetuning
from cloze.tasks.mnli import MNLI
from cloze.tasks.registry import tasks
from cloze.text.tokenizer import Tokenizer

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "book")
SMALL = ("--set", "max_seq_length=12", "--set", "micro_batch_tokens=64", "--set", "device=cpu")
NANO = (*SMALL, "--learning-rate", "0.01", "--epochs", "15")
RECIPES = sorted(
    (Path(load_finetuning.__code__.co_filename).parents[1] / "recipes/finetuning").glob("*.toml")
)
Capture = pytest.CaptureFixture[str]


def _nli(name: str, *labels: str) -> str:
    texts = {"entailment": "good", "neutral": "film film", "contradiction": "bad"}
    return f"sentence1\tsentence2\t{name}\n" + "".join(f"book\t{texts[label]}\t{label}\n" for label in labels)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, a small MNLI, AX, and a run of it."""
    place = tmp_path_factory.mktemp("place")
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=20,
        max_position_embeddings=16,
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with artifacts.write_directory(place / "model", kind="checkpoint") as directory:
        encoder = BertModel(config, generator=torch.Generator().manual_seed(1))
        write_model_files(directory, encoder, Tokenizer.from_pieces(PIECES))
    three = ("entailment", "neutral", "contradiction")
    (place / "data").mkdir()
    (place / "data/train.tsv").write_text(_nli("gold_label", *three * 20))
    (place / "data/dev_matched.tsv").write_text(_nli("gold_label", *three * 3, "neutral"))
    (place / "data/dev_mismatched.tsv").write_text(_nli("gold_label", *three))
    (place / "ax.tsv").write_text(_nli("label", *three))
    command = ["finetune", "mnli", "-m", str(place / "model"), "-d", str(place / "data"), *NANO, "--quiet"]
    assert main([*command, "-o", str(place / "run")]) == 0
    return place


def test_tasks_are_listed(capsys: Capture) -> None:
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(tasks())
    assert main(["tasks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["task"]: row["metric"] for row in rows}["cola"] == "matthews"


def test_a_directory_of_a_benchmark_is_enough(place: Path) -> None:
    settings = (place / "run/run.toml").read_text()
    assert f'train = "{place}/data/train.tsv"' in settings
    assert f'dev = "{place}/data/dev_matched.tsv"' in settings


def test_evaluation_says_what_the_run_said(place: Path, capsys: Capture) -> None:
    command = ["evaluate", "mnli", "-m", str(place / "run"), "--quiet"]
    assert main([*command, "-d", str(place / "data"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    kept = json.loads((place / "run/scores.json").read_text())
    assert found == {name: kept[name] for name in found}
    assert found["examples"] == 10
    assert main([*command, "-d", str(place / "data/dev_mismatched.tsv")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "  accuracy          1.0000"
    assert shown[-1] == f"  on 3 examples: {place}/data/dev_mismatched.tsv"


def test_models_of_mnli_answer_ax(place: Path, capsys: Capture) -> None:
    command = ["evaluate", "ax", "-m", str(place / "run"), "-d", str(place / "ax.tsv"), "--json", "--quiet"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["matthews"] == 1.0
    assert main(["finetune", "ax", "-m", "M", "-d", "D", "-o", str(place / "none")]) == 2
    assert "Fine-tune mnli: its models answer ax, too" in capsys.readouterr().err
    assert main(["evaluate", "rte", "-m", str(place / "run"), "-d", "D"]) == 2
    assert "a model for the task 'mnli', not 'rte'" in capsys.readouterr().err


def test_predictions_that_were_kept_score_the_same(place: Path, tmp_path: Path, capsys: Capture) -> None:
    gold, predictions = place / "data/dev_matched.tsv", tmp_path / "predictions.jsonl"
    base = ["evaluate", "mnli", "-m", str(place / "run"), "-d", str(gold), "--json", "--quiet"]
    assert main([*base, "-o", str(predictions)]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert main(["predict", "mnli", "-m", str(place / "run"), str(gold), "--quiet"]) == 0
    assert capsys.readouterr().out == predictions.read_text()
    assert main(["score", "mnli", str(predictions), str(gold), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == evaluated
    numbers = tmp_path / "numbers.jsonl"  # as other programs write labels
    labels = [json.loads(line)["label"] for line in predictions.read_text().splitlines()]
    numbers.write_text("".join(f'{{"label": {MNLI().labels.index(label)}}}\n' for label in labels))
    assert main(["score", "mnli", str(numbers), str(gold), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == evaluated
    assert main([*base, "-o", str(predictions)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_labels_that_are_no_texts_are_those_of_the_data(tmp_path: Path, capsys: Capture) -> None:
    labels = [True, False, True]
    gold, predictions = tmp_path / "gold.jsonl", tmp_path / "predictions.jsonl"
    gold.write_text("".join(json.dumps({"text": "a", "label": label}) + "\n" for label in labels))
    predictions.write_text("".join(json.dumps({"label": label}) + "\n" for label in labels))
    assert main(["score", "classification", str(predictions), str(gold), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


BAD_PREDICTIONS = {
    "a label that is none": (
        '{"label": null}\n' * 10,
        "predictions.jsonl:1: no prediction for mnli: TypeError",
    ),
    "too few": ('{"label": "neutral"}\n' * 9, "predictions.jsonl: 9 predictions for 10 examples"),
    "no label": (
        '{"label": "neutral"}\n{"lable": 1}\n',
        "predictions.jsonl:2: no prediction for mnli: KeyError 'label'",
    ),
    "another label": (
        '{"label": "neutral"}\n{"label": "natural"}\n',
        "predictions.jsonl:2: no prediction for mnli: ValueError label 'natural' is none of entailment, neutral",
    ),
    "no JSON": ("neutral\n", "predictions.jsonl:1: not JSON"),
    "nothing": ("", "predictions.jsonl: 0 predictions for 10 examples"),
}


@pytest.mark.parametrize("kind", BAD_PREDICTIONS)
def test_predictions_that_cannot_be_scored(place: Path, tmp_path: Path, capsys: Capture, kind: str) -> None:
    content, says = BAD_PREDICTIONS[kind]
    (tmp_path / "predictions.jsonl").write_text(content)
    command = ["score", "mnli", str(tmp_path / "predictions.jsonl"), str(place / "data/dev_matched.tsv")]
    assert main(command) == 2
    assert says in capsys.readouterr().err


def test_a_gold_label_that_the_task_does_not_know(place: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "gold.tsv").write_text("sentence1\tsentence2\tgold_label\na\tb\tneutral\na\tb\tperhaps\n")
    (tmp_path / "predictions.jsonl").write_text('{"label": "neutral"}\n' * 2)
    assert main(["score", "mnli", str(tmp_path / "predictions.jsonl"), str(tmp_path / "gold.tsv")]) == 2
    assert "gold.tsv:3: label 'perhaps' is none of the task's. It knows entail" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["predict", "mnli", "FILE"], ["evaluate", "mnli", "-d", "FILE"]])
def test_a_bad_line_is_told_before_a_good_one_is_answered(
    place: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    gold = tmp_path / "gold.tsv"
    gold.write_text("sentence1\tsentence2\tgold_label\n" + "a\tb\tneutral\n" * 600 + "a\tb\n")
    monkeypatch.setattr("cloze.inference.predictor.predict", lambda *_, **__: pytest.fail("answered"))
    command = [str(gold) if word == "FILE" else word for word in verb]
    assert main([*command, "-m", str(place / "run"), "-o", str(tmp_path / "out"), "--debug"]) == 2
    assert "gold.tsv:602: 2 cells" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_validate_reads_everything_and_writes_nothing(place: Path, tmp_path: Path, capsys: Capture) -> None:
    base = ["finetune", "mnli", "-m", str(place / "model"), "-o", str(tmp_path / "run"), *NANO, "--quiet"]
    assert main([*base, "-d", str(place / "data"), "--validate", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["train_examples"], report["dev_examples"], report["longest"]) == (60, 10, 6)
    assert report["settings"]["labels"] == ["entailment", "neutral", "contradiction"]
    spoiled = tmp_path / "train.tsv"
    spoiled.write_text((place / "data/train.tsv").read_text() + "a\tb\tperhaps\n")
    assert main([*base, "-d", str(spoiled), "--validate"]) == 2
    assert f"{spoiled}:62: label 'perhaps' is none of the task's" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_seeds_and_grid_are_told(place: Path, tmp_path: Path, capsys: Capture) -> None:
    base = ["finetune", "mnli", "-m", str(place / "model"), "-d", str(place / "data"), *SMALL, "--quiet"]
    grid = ["--grid", "--set", "grid.epochs=[1]", "--set", "grid.batch_sizes=[]"]
    assert main([*base, "-o", str(tmp_path / "run"), "--seeds", "2", *grid]) == 0
    shown = capsys.readouterr().out
    assert shown.count("runs: 2") == 3
    assert "rate-5e-05_epochs-1, runs: 2" in shown
    assert "±" in shown
    assert "best by accuracy: rate-" in shown
    assert f"on 10 examples: {place}/data/dev_matched.tsv" in shown
    assert main(["finetune", "mnli", "-o", str(tmp_path / "run"), "--resume", "--json", "--quiet"]) == 0
    assert len(json.loads(capsys.readouterr().out)["settings"]) == 3
    assert main(["evaluate", "mnli", "-m", str(tmp_path / "run"), "-d", str(place / "data"), "--quiet"]) == 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_found_by_name(recipe: Path, capsys: Capture) -> None:
    content = recipe.read_text()
    task = content.split('task = "')[1].split('"')[0] if "task = " in content else "cola"
    command = ["finetune", task, "-c", recipe.stem, "-m", "M", "-d", "D", "--print-config"]
    assert main(command) == 0
    assert f'task = "{task}"' in capsys.readouterr().out


def test_what_is_wrong_is_said_in_one_line(place: Path, tmp_path: Path, capsys: Capture) -> None:
    wrong = {
        f"evaluate mnli -m {place}/run -d {tmp_path}": f"{tmp_path}: no dev_matched.tsv nor mnli.valid.jsonl in this",
        f"evaluate mnli -m {place}/model -d {place}/data": "config.json names no labels",
        f"evaluate mnli -m {place}/run -d {place}/ax.tsv": "",
        f"evaluate mnlo -m {place}/run -d {place}/data": "no task 'mnlo'. Did you mean mnli",
        f"evaluate mnli -m {place}/run -d {place}/data --set mnli.label=x": "unknown key mnli.label. Did you mean",
        f"evaluate mnli -m {place}/run -d {place}/data --set mnli.labels=['a','b']": "what the model was trained with",
        f"evaluate mlm -m {place}/run -d {place}/ax.tsv --text-column x": "--text-column: evaluate mlm has no use",
        f"evaluate fill -m {place}/run -d {place}/ax.tsv --set a=b": "--set: evaluate fill has no use for it",
        f"baseline mnli -d {place}/data --learning-curve 5000": "mnli: there are 60 examples to learn from",
        f"evaluate mnli -m {place}/run -d {place}/data --set epochs=3": "epochs is no setting of the task",
        "score classification a.jsonl b.tsv": "b.tsv: no such file",
        f"predict mnli -m {place}/run {tmp_path}/none.tsv": "none.tsv: no such file",
        f"finetune mnli -m M -d {tmp_path} -o {tmp_path}/run": f"{tmp_path}: no train.tsv nor mnli.train.jsonl",
        f"finetune mnli -m M -d D -o {tmp_path}/run -c gleu": "no recipe 'gleu'. Give a TOML file, or one of ",
    }
    for command, says in wrong.items():
        assert main([*command.split(), "--quiet"]) == (2 if says else 0), command
        printed = capsys.readouterr()
        assert says in printed.err, command
        assert printed.err.count("\n") == bool(says)
