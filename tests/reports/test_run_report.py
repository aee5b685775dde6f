"""The report of a run: complete, escaped and reproducible, for any metrics."""

import json

import pytest

import cloze
from cloze.errors import InputError
from cloze.reports.run_report import collect_metrics, write_report
from pages import page_data, read_page


def train(step, **values):
    return {"kind": "train", "step": step, "loss": 9.0 - step / 100, **values}


def validation(step, **values):
    return {"kind": "validation", "step": step, "loss": 8.5 - step / 100, **values}


@pytest.fixture
def write_run(tmp_path):
    def write(rows, name="my-run", *, files=None):
        run = tmp_path / name
        run.mkdir()
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        for file, text in (files or {}).items():
            (run / file).write_text(text)
        return run

    return write


def pretraining_rows():
    rows = []
    for step in range(10, 210, 10):
        progress = {"phase": step // 150, "epoch": 0, "tokens": step * 1000, "seconds": step * 1.5}
        progress["tokens_per_second"] = 9000.0 if step == 10 else 7000.0
        rows.append(train(step, masked_lm_loss=8.0, learning_rate=1e-4, **progress))
        if step % 50 == 0:
            measures = {"masked_lm_loss": 7.0, "masked_lm_unigram_loss": 7.4, "masked_lm_accuracy": 0.1}
            rows.append(validation(step, seconds=step * 1.5 + 2, **measures))
    return rows


def test_the_report_of_a_pretraining_run(write_run):
    run = write_run(
        pretraining_rows(),
        files={
            "run.toml": 'data = "wiki"\nsteps = 200\n[masking]\nwhole_word = false\n[[phases]]\nmax_seq_length = 128\n',
            "environment.json": json.dumps({"versions": {"torch": "2.13"}, "threads": 2}),
        },
    )
    path = write_report(run)
    assert path == run / "report.html"
    first = path.read_bytes()
    assert write_report(run).read_bytes() == first
    _, text = read_page(path)
    assert "pre-training run" in text
    assert "200 optimizer steps · 200,000 tokens · 5:02" in text
    assert "held-out; unigram 7.400" in text
    assert "Tokens per second 7,000 training, median" in text
    assert "whole_word false" in text
    assert "max_seq_length 128" in text
    assert "torch 2.13" in text
    assert "A dotted vertical line" in text


def test_the_curves_of_a_pretraining_run(write_run):
    data = page_data(write_report(write_run(pretraining_rows())).read_text("utf-8"))
    lines = {measure["title"]: measure["lines"] for measure in data["measures"]}
    assert list(lines) == [
        "Loss",
        "Masked LM loss",
        "Masked LM accuracy",
        "Learning rate",
        "Tokens per second",
    ]  # the baseline is a line of its loss
    baseline, training, held_out = lines["Masked LM loss"]
    assert (baseline["kind"], baseline["name"], training["kind"]) == ("baseline", "unigram", "train")
    assert held_out == {
        "kind": "held-out",
        "name": "held out",
        "curve": {"steps": [50, 100, 150, 200], "values": [7.0] * 4},
    }
    assert training["curve"]["steps"] == list(range(10, 210, 10))
    assert data["end"] == 200
    assert data["phases"] == [140]
    assert [mark["label"] for mark in data["times"]] == ["1:00", "2:00", "3:00", "4:00", "5:00"]
    assert [mark["step"] for mark in data["times"]] == pytest.approx([40, 80, 120, 160, 200], abs=0.1)


@pytest.mark.slow
def test_the_report_draws_its_curves_in_a_browser(browser_page, write_run, tmp_path):
    browser_page.goto(write_report(write_run(pretraining_rows())).as_uri())
    figure = browser_page.get_by_role(
        "img", name="Masked LM loss over 200 steps: unigram 7.4, training 8, held out 7"
    )
    assert figure.count() == 1
    assert [figure.locator(css).count() for css in ("path.curve", "circle.dot", "line.phase")] == [
        3,
        4,
        1,
    ]
    assert browser_page.locator("figure svg").count() == 5
    with browser_page.expect_download() as download:
        browser_page.get_by_role("button", name="Save masked_lm_loss as SVG").click()
    download.value.save_as(tmp_path / "curves.svg")
    assert "<path" in (tmp_path / "curves.svg").read_text("utf-8")


def test_everything_is_escaped(write_run):
    evil = "<script>alert(1)</script>"
    rows = [train(1, **{evil: 1.0, "a$b$": 2.0}), {"kind": "skipped", "step": 2, "reason": evil}]
    files = {
        "run.toml": f'data = "{evil}"\n["x<y"]\n"k<" = 1\n',
        "environment.json": json.dumps({"processor": evil}),
        "scores.json": json.dumps({"task": evil, "accuracy": 0.5}),
    }
    page, text = read_page(write_report(write_run(rows, "run <b> & caf\udce9", files=files)))
    assert page.count("<script") == 2
    assert "<b>" not in page
    assert text.count(evil) >= 5
    assert "run <b> & caf\ufffd" in text


def test_the_report_of_a_fine_tuning_run(write_run, tmp_path):
    rows = [train(5, seconds=1.0), validation(10, accuracy=0.75, seconds=2.0)]
    files = {
        "run.toml": 'task = "classification"\nmodel = "m"\n',
        "scores.json": json.dumps({"task": "classification", "accuracy": 0.8125, "examples": 64}),
    }
    run, output = write_run(rows, files=files), tmp_path / "page.html"
    assert cloze.report(run, output=output) == output
    _, text = read_page(output)
    assert "fine-tuning run: classification" in text
    assert "Accuracy 0.8125" in text
    assert "Examples 64" in text
    with pytest.raises(InputError, match="already exists"):
        cloze.report(run, output=output)
    cloze.report(run, output=output, overwrite=True)


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [train(1)],
        [validation(1)],
        [{"kind": "skipped", "step": 1, "reason": "loss nan"}],
        [train(1, masked_lm_loss=float("nan")), train(2, masked_lm_loss=float("inf"))],
        [train(1, seconds=0.0), train(2, seconds=0.0)],
    ],
)
def test_runs_with_few_metrics(write_run, rows):
    _, text = read_page(write_report(write_run(rows)))
    assert "The run has no run.toml." in text
    assert "The run has no environment.json." in text


def test_a_long_run_does_not_make_a_long_page(write_run):
    short, long = (
        write_report(
            write_run([row(step) for step in range(1, num) for row in (train, validation)], f"{num}")
        )
        for num in (2001, 20001)
    )
    assert long.stat().st_size < 1.2 * short.stat().st_size
    assert "40 of 20,000 evaluations" in long.read_text("utf-8")


@pytest.mark.protected
def test_directories_that_are_not_runs_are_refused(tmp_path, write_run):
    with pytest.raises(InputError, match="no such directory"):
        write_report(tmp_path / "none")
    with pytest.raises(InputError, match=r"no metrics\.jsonl"):
        write_report(tmp_path)
    (tmp_path / "several" / "trials" / "seed-7").mkdir(parents=True)
    with pytest.raises(InputError, match=r"several: holds several runs. Name one of them, as in .*seed-7"):
        write_report(tmp_path / "several")
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: .*kind or step"):
        write_report(write_run([train(1), {"loss": 3}]))
    with pytest.raises(InputError, match=r"environment\.json: not a JSON"):
        write_report(write_run([], "other", files={"environment.json": "{"}))


def test_baselines_belong_to_their_metrics():
    rows = [
        validation(1, accuracy=0.5, majority_accuracy=0.4, masked_lm_loss=3.0, masked_lm_unigram_loss=4.0)
    ]
    metrics = {metric.name: metric for metric in collect_metrics(rows)}
    assert list(metrics) == ["loss", "masked_lm_loss", "accuracy"]
    assert metrics["accuracy"].baseline == {1: 0.4}
    assert metrics["accuracy"].baseline_name == "majority"
    assert metrics["masked_lm_loss"].baseline == {1: 4.0}
    assert metrics["loss"].baseline == {}
