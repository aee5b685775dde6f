"""The report of a run: complete, escaped and reproducible, for any metrics; scores by class also as text."""

import json
import re
from importlib.resources import files

import numpy as np
import pytest

import cloze
from cloze.errors import InputError
from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.reports.breakdown_text import format_breakdown
from cloze.reports.run_report import confusion_matrix_svg, write_report
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
            measures["masked_lm_majority_accuracy"] = 0.05
            rows.append(validation(step, seconds=step * 1.5 + 2, **measures))
    return rows


def test_the_report_of_a_pretraining_run(write_run):
    run = write_run(
        pretraining_rows(),
        files={
            "run.toml": 'data = "wiki"\nsteps = 200\n[masking]\nwhole_word = false\n[masking.rates]\nkeep = 0.1\n'
            "[[phases]]\nmax_seq_length = 128\n",
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
    assert "masking.rates keep 0.1" in text
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
    assert [line["name"] for line in lines["Masked LM accuracy"]] == ["majority", "held out"]
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
    assert [figure.locator(css).count() for css in ("path.curve", "circle.dot", "line.phase")] == [3, 4, 1]
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
    (tmp_path / "several" / "trials" / "seed-7").mkdir(parents=True)
    with pytest.raises(InputError, match=r"several: holds several runs. Name one of them, as in .*seed-7"):
        write_report(tmp_path / "several")
    with pytest.raises(InputError, match=r"environment\.json: not a JSON"):
        write_report(write_run([], "other", files={"environment.json": "{"}))


def breakdown(num_classes: int, count: int = 40_000) -> Breakdown:
    rng = np.random.default_rng(3)
    names = [f"department number {i}" for i in range(num_classes)]
    gold = rng.integers(num_classes, size=count)
    predicted = np.where(rng.random(count) < 0.8, gold, rng.integers(num_classes, size=count))
    return class_breakdown([names[i] for i in gold], [names[i] for i in predicted], names)


def test_a_small_matrix_has_the_names_of_its_columns():
    lines = format_breakdown(class_breakdown(["no", "yes", "yes"], ["no", "no", "yes"]))
    assert lines == [
        "",
        "  class  precision  recall      f1  support",
        "  no        0.5000  1.0000  0.6667        1",
        "  yes       1.0000  0.5000  0.6667        2",
        "  mean      0.7500  0.7500  0.6667        3",
        "",
        "  confusion matrix: rows are gold, columns predicted",
        "       no  yes",
        "  no    1    .",
        "  yes   1    1",
    ]


@pytest.mark.parametrize("num_classes", [2, 9, 10, 60, 2000])
def test_lines_have_80_columns_and_say_what_is_left_out(num_classes):
    values = breakdown(num_classes)
    lines = format_breakdown(values)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    (worst, *_) = values.confused_pairs(1)
    if fits := num_classes <= 9:  # the next one needs 84 columns
        assert str(values.confusion["department number 1"]["department number 0"]) in text
    else:
        assert f"{worst[0]} → {worst[1]}" in text
    assert ("the confusion matrix of" in text) != fits
    assert (f"30 of {num_classes:,} classes" in text) == (num_classes > 30)


@pytest.mark.parametrize("num_classes", [3, 2000])
def test_the_report_of_a_run_draws_the_matrix(tmp_path, num_classes):
    values = breakdown(num_classes)
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 1, "loss": 2.0}\n')
    (tmp_path / "scores.json").write_text(json.dumps({"collapse": "no entity", **values.to_dict()}))
    page, text = read_page(write_report(tmp_path))
    cells = min(num_classes, 25) + (num_classes > 25)
    assert page.count("<g><title>department number") + page.count("<g><title>(others)") == cells**2
    assert "Scores by class" in text
    assert text.count("The model learned nothing: no entity.") == 1
    if num_classes == 3:
        first = next(iter(values.confusion["department number 0"]))
        assert f"department number 0 predicted as {first}" in page
    else:
        assert "1,975 classes with fewer errors are summed in (others)" in text
        assert "100 of 2,000, those with the most errors" in text


def _rgb(color: str) -> np.ndarray:
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def _luminance(color: np.ndarray) -> float:
    """Relative luminance as in WCAG 2."""
    linear = np.where(color <= 0.04045 * 255, color / 255 / 12.92, ((color / 255 + 0.055) / 1.055) ** 2.4)
    return float([0.2126, 0.7152, 0.0722] @ linear)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_numbers_of_the_matrix_have_a_contrast_of_at_least_4_5(scheme):
    css = files("cloze.reports").joinpath("page.css").read_text("utf-8")
    accent, card, ink = (
        _rgb(re.search(rf"--{name}: light-dark\((#\w+), (#\w+)\)", css)[scheme + 1])
        for name in ("accent", "card", "ink")
    )
    matrix = [[count, 100 - count, *[0] * 99] for count in range(101)]
    svg = confusion_matrix_svg(matrix, [f"c{i}" for i in range(101)])
    opacities = {float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', svg)}
    assert len(opacities) > 50
    assert set(re.findall(r'text-anchor="middle" style="fill: ([^"]+)"', svg)) == {"var(--ink, #1d1f24)"}
    for opacity in opacities:
        low, high = sorted(map(_luminance, (opacity * accent + (1 - opacity) * card, ink)))
        assert (high + 0.05) / (low + 0.05) >= 4.5
