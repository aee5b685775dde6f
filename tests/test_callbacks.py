"""Callbacks of a run, and the writers for TensorBoard, Weights & Biases and MLflow with the real libraries, offline."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.callbacks import Callback, MLflowWriter, TensorBoardWriter, WandbWriter
from cloze.cli import main
from cloze.training.metrics_log import read_metrics
from ranks import Ranks
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TOKENS = (*SPECIAL, *"abcdefgh", "good", "bad")
ROWS = [(f"{word} {letter}", word) for letter in "abcdefgh" for word in ("good", "bad")]


class Recorder(Callback):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def on_start(self, run: Path, settings: Any, step: int) -> None:
        self.calls.append(("start", run.name, settings["epochs"], step))

    def on_step(self, step: int, values: Any) -> None:
        self.calls.append(("train", step, dict(values)))

    def on_evaluation(self, step: int, values: Any) -> None:
        self.calls.append(("validation", step, dict(values)))

    def on_end(self, *, completed: bool) -> None:
        self.calls.append(("end", completed))


class StopAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_evaluation(self, step: int, values: Any) -> None:
        if step == self.step:
            raise KeyboardInterrupt


class FailAt(Recorder):
    """Fails in one method, after it has recorded the call."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method, usual = method, getattr(self, method)
        setattr(self, method, lambda *values, **named: (usual(*values, **named), self.fail()))

    def fail(self) -> None:
        raise LookupError(f"in {self.method}")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    encoder = cloze.BertModel(tiny_config(TOKENS))
    return str(write_checkpoint(tmp_path_factory.mktemp("m") / "tiny", encoder, TOKENS))


def train(model: str, run: Path, *callbacks: Callback, **settings: Any) -> object:
    data: Any = {"train": ROWS, "dev": ROWS, "model": model, "output": run, "callbacks": callbacks}
    usual = {"epochs": 2, "batch_size": 8, "device": "cpu", "precision": "float32", "max_seq_length": 12}
    return cloze.finetune("classification", **data, settings={"log_every_steps": 1}, **{**usual, **settings})


def values_of(run: Path, kind: str, name: str) -> dict[int, float]:
    return {row["step"]: row[name] for row in read_metrics(run) if row["kind"] == kind}


def test_callbacks_receive_what_the_log_has(model, tmp_path):
    recorder = Recorder()
    train(model, tmp_path / "run", recorder)
    first, *measured, last = recorder.calls
    assert (first, last) == (("start", "run", 2, 0), ("end", True))
    *rows, end = read_metrics(tmp_path / "run")
    assert [{"kind": kind, "step": step, **values} for kind, step, values in measured] == rows
    assert end == {"kind": "end", "step": 4}
    assert [row["step"] for row in rows if row["kind"] == "validation"] == [2, 4]


def test_a_resumed_run_calls_from_its_checkpoint(model, tmp_path):
    stopped, resumed = Recorder(), Recorder()
    with pytest.raises(KeyboardInterrupt):
        train(model, tmp_path / "run", stopped, StopAt(4))
    assert stopped.calls[-1] == ("end", False)
    train(model, tmp_path / "run", resumed, resume=True)
    assert resumed.calls[0] == ("start", "run", 2, 2)
    assert [step for kind, step, *_ in resumed.calls[1:-1] if kind == "train"] == [3, 4]


@pytest.mark.parametrize("method", ["on_start", "on_step", "on_evaluation", "on_end"])
def test_callbacks_that_have_begun_are_finished_after_an_error_in_one(model, tmp_path, method):
    before, failing, after = Recorder(), FailAt(method), Recorder()
    with pytest.raises(LookupError, match=f"in {method}"):
        train(model, tmp_path / "run", before, failing, after)
    end = ("end", method == "on_end")
    assert [call for call in before.calls if call[0] == "end"] == [end]
    if method == "on_start":
        assert failing.calls == [("start", "run", 2, 0)]
        assert after.calls == []
    else:
        assert failing.calls[-1] == after.calls[-1] == end
    train(model, tmp_path / "run", resume=True)


def test_the_first_error_is_raised(model, tmp_path, capsys):
    last = Recorder()
    with pytest.raises(LookupError, match="in on_step"):
        train(model, tmp_path / "run", FailAt("on_end"), FailAt("on_step"), last, progress=True)
    assert last.calls[-1] == ("end", False)
    assert "a callback failed at the end of the run: LookupError('in on_end')" in capsys.readouterr().err


def train_with_failing_callback(model: str, run: Path, method: str) -> None:
    train(model, run, FailAt(method))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["on_step", "on_end"])
def test_an_error_in_a_callback_stops_all_ranks(model, tmp_path, method):
    ranks = Ranks(2, train_with_failing_callback, model, tmp_path / "run", method)
    assert ranks.join() == [1, 1]
    assert ranks.errors.empty()  # no rank reports that another one was lost


@pytest.mark.slow
def test_every_run_of_several_is_called(model, tmp_path):
    recorder = Recorder()
    train(model, tmp_path / "runs", recorder, seeds=2, epochs=1)
    starts = [call[1] for call in recorder.calls if call[0] == "start"]
    assert starts == ["seed-12345", "seed-12346"]
    with pytest.raises(cloze.InputError, match="callbacks: are called in this process"):
        train(model, tmp_path / "more", recorder, seeds=2, workers=2)


def test_pretraining_calls_them(tmp_path):
    recorder = Recorder()
    recorder.on_start = lambda run, settings, step: recorder.calls.append(("start", settings["steps"]))
    texts = [f"{a} {b} {c} .\n{c} {a} ." for a in "abcdefgh" for b in "abcdefgh" for c in "abcd"]
    cloze.train_vocabulary(texts=iter(texts), output=tmp_path / "vocab", size=14)
    model = {"num_hidden_layers": 1, "hidden_size": 12, "num_attention_heads": 2, "intermediate_size": 16}
    cloze.build_dataset(texts=iter(texts), vocabulary=tmp_path / "vocab", output=tmp_path / "data")
    settings = {
        "phases": [{"max_seq_length": 16, "fraction": 1.0, "batch_size": 4}],
        "evaluation": {"times": 1, "log_every_steps": 1},
        "model": model,
    }
    data, run = tmp_path / "data", tmp_path / "run"
    options: Any = {"device": "cpu", "settings": settings, "callbacks": [recorder]}
    losses = cloze.pretrain(data=data, output=run, steps=2, **options)
    assert [call[0] for call in recorder.calls] == ["start", "train", "train", "validation", "end"]
    assert recorder.calls[3][2]["masked_lm_loss"] == losses["masked_lm_loss"]


def test_texts_in_memory_and_in_a_file_give_the_same_data_set(tmp_path):
    texts = [f"{a} {b}.\n\n{b} {a} {a}." for a in "abcdefgh" for b in "abcdefgh"]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for name, source in (("file", {"inputs": tmp_path / "texts.jsonl"}), ("memory", {"texts": texts})):
        cloze.train_vocabulary(**source, output=tmp_path / name / "vocab", size=14)
        cloze.build_dataset(**source, vocabulary=tmp_path / name / "vocab", output=tmp_path / name / "data")
    one, other = tmp_path / "file", tmp_path / "memory"
    files = [path.relative_to(one) for path in one.rglob("*") if path.suffix in (".arrow", ".txt")]
    assert len(files) >= 3
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in files)


def test_tensorboard_has_the_numbers_of_the_log(model, tmp_path):
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    train(model, tmp_path / "run")
    [file] = (tmp_path / "run" / "tensorboard").iterdir()
    data, start, accuracies = file.read_bytes(), 0, {}
    while start < len(data):  # records: length, checksum, event, checksum
        size = int.from_bytes(data[start : start + 8], "little")
        event = Event.FromString(data[start + 12 : start + 12 + size])
        for value in event.summary.value:
            if value.tag == "validation/accuracy":
                accuracies[event.step] = value.simple_value
        start += size + 16
    assert accuracies == pytest.approx(values_of(tmp_path / "run", "validation", "accuracy"))


@pytest.mark.timeout(60)
def test_undefined_numbers_and_a_clock_set_back_do_not_stop_a_run(tmp_path, monkeypatch, caplog, capfd):
    pytest.importorskip("tensorboardX")
    writer = TensorBoardWriter()
    writer.on_start(tmp_path, {}, 0)
    monkeypatch.setattr("time.time", lambda: 0.0)
    for step in range(50):
        writer.on_step(step, {"loss": 1.0})
    writer.on_evaluation(50, {"pearson": math.nan, "loss": math.inf})
    writer.on_end(completed=True)
    [file] = (tmp_path / "tensorboard").iterdir()
    assert file.read_bytes().count(b"train/loss") == 50
    assert b"validation/pearson" in file.read_bytes()
    assert not caplog.records
    assert not any(capfd.readouterr())


@pytest.mark.parametrize("method", ["init", "finish"])
def test_an_error_of_a_service_is_one_line(model, tmp_path, monkeypatch, method):
    wandb = pytest.importorskip("wandb")

    class Run:
        define_metric = log = finish = lambda *_, **__: None

    def fail(*_: object, **__: object) -> None:
        raise LookupError("no such project.")

    monkeypatch.setattr(wandb, "init", lambda **_: Run())
    monkeypatch.setattr(wandb if method == "init" else Run, method, fail)
    message = r"^wandb: LookupError: no such project\. `resume` continues the run\.$"
    with pytest.raises(cloze.RunError, match=message):
        train(model, tmp_path / "run", WandbWriter())


@pytest.mark.slow
def test_a_service_without_a_key_is_refused_before_anything_is_written(tmp_path):
    pytest.importorskip("wandb")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    words = ["finetune", "classification", "-m", "cloze-mini", "-d", "x.tsv", "-o", tmp_path / "run"]
    done = subprocess.run(
        [sys.executable, "-m", "cloze", *words, "--report-to=wandb"],
        env={**environment, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch("error: --report-to: No API key.*\n", done.stderr)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_mlflow_has_the_numbers_of_the_log(model, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    for switch in ("MLFLOW_ALLOW_FILE_STORE", "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.setenv(switch, "true")
    from mlflow import MlflowClient

    for single in ("log_metric", "log_param"):  # a request for each would hold up the steps
        monkeypatch.delattr(MlflowClient, single)
    uri = f"file:{tmp_path / 'mlflow'}"
    with pytest.raises(KeyboardInterrupt):
        train(model, tmp_path / "run", MLflowWriter("notes", uri), StopAt(4))
    client = MlflowClient(tracking_uri=uri)
    [run] = client.search_runs([client.get_experiment_by_name("notes").experiment_id])
    assert run.info.status == "FAILED"
    train(model, tmp_path / "run", MLflowWriter("notes", uri), resume=True)
    [run] = client.search_runs([client.get_experiment_by_name("notes").experiment_id])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "run")
    assert run.data.params["optimizer.learning_rate"] == "5e-05"
    history = client.get_metric_history(run.info.run_id, "validation/accuracy")
    accuracies = values_of(tmp_path / "run", "validation", "accuracy")
    assert {point.step: point.value for point in history} == accuracies


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:wandb", "ignore::UserWarning:wandb")
def test_wandb_has_the_numbers_of_the_log(model, tmp_path, monkeypatch):
    run_class = pytest.importorskip("wandb").Run
    logged, log = [], run_class.log
    monkeypatch.setattr(run_class, "log", lambda self, row: logged.append(row) or log(self, row))
    switches = {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
    folders = dict.fromkeys(("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"), str(tmp_path / "home"))
    for name, value in {**switches, **folders}.items():
        monkeypatch.setenv(name, value)
    table = tmp_path / "notes.tsv"
    table.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS), "utf-8")
    words = ["finetune", "classification", "-m", model, "-d", str(table), "-o", str(tmp_path / "run")]
    assert main([*words, "--set=log_every_steps=1", "--report-to", "wandb:notes"]) == 0
    identifier = (tmp_path / "run" / "wandb.id").read_text()
    [folder] = (tmp_path / "run" / "wandb").glob(f"offline-run-*-{identifier}")
    [file] = folder.glob("*.wandb")
    assert file.read_bytes().count(b"validation/accuracy") >= 2
    accuracies = {row["step"]: row["validation/accuracy"] for row in logged if "validation/accuracy" in row}
    assert accuracies == values_of(tmp_path / "run", "validation", "accuracy")


@pytest.mark.parametrize(
    ("services", "message"),
    [
        ("comet", "'comet' is no service. Name wandb or mlflow."),
        ("wandb wandb:notes", "wandb is named twice. Name it once."),
        ("wandb --seeds=2 --workers=2", "several processes cannot log to one service. Leave out --workers"),
    ],
)
def test_wrong_services_are_refused_before_anything_is_written(services, message, tmp_path, capsys):
    pytest.importorskip("wandb")
    flags = [word if word.startswith("--") else f"--report-to={word}" for word in services.split()]
    words = ["finetune", "classification", "-m", "cloze-mini", "-d", "x.tsv", "-o", str(tmp_path / "run")]
    assert main([*words, *flags]) == 2
    assert f"error: --report-to: {message}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
