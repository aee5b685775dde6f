"""The model card: its sections and the tables from the log of its run."""

import json
from pathlib import Path

import pytest
from torch import nn

from cloze.markdown import code_block, code_span, yaml_text
from cloze.training.checkpoints import TrainingState
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference, check_license, model_card

STATE = TrainingState(step=30, tokens=300)


def card_info(**changes: object) -> CardInfo:
    given = {
        "data": [
            DatasetReference(role="learned from", name="a|b.tsv", extent="7 examples", sha256="ab" * 32)
        ],
        "measured_on": "3 examples of `dev.tsv`",
        "license": "apache-2.0",
        "pipeline_tag": "fill-mask",
        "settings": 'seed = 3\nmodel = "there"\n',
    }
    return CardInfo(**(given | changes))  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows: list[dict[str, object]] = []
    for step in range(1, 31):
        rows.append({"kind": "train", "step": step, "loss": 1.0, "tokens": 10 * step, "seconds": 0.5})
        rows.append({"kind": "validation", "step": step, "loss": 1 / step, "accuracy": 0.5, "seconds": 0.5})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {"versions": {"torch": "2.13"}, "device": "cpu", "processor": "A processor"}
    (tmp_path / "environment.json").write_text(json.dumps(environment))
    return tmp_path


def test_a_card_has_all_sections(run):
    text = model_card(card_info(), nn.Linear(3, 4), run, STATE)
    header, _, body = text.removeprefix("---\n").partition("\n---\n")
    assert header.splitlines() == [
        "license: apache-2.0",
        "library_name: transformers",
        "pipeline_tag: fill-mask",
        "tags: [bert, cloze]",
    ]
    assert [line.removeprefix("## ") for line in body.splitlines() if line.startswith("## ")] == [
        *["Use", "Intended use", "Limits", "Data", "Scores", "Curve", "License", "Made with", "Settings"]
    ]
    assert f"| learned from | `a&#124;b.tsv` | 7 examples | `{'ab' * 32}` |" in body
    assert "Evaluated on 3 examples of `dev.tsv` at step 30" in body
    assert "| loss | 0.0333 |\n| accuracy | 0.5000 |" in body
    assert "- 16 weights\n- 30 steps over 300 tokens\n- A processor\n- torch 2.13" in body
    assert 'seed = 3\nmodel = "there"\n```' in body


def test_long_curve_is_thinned_and_keeps_both_ends(run):
    curve = model_card(card_info(), nn.Linear(3, 4), run, STATE).partition("## Curve")[2].partition("## ")[0]
    assert "12 of 30 evaluations." in curve
    steps = [line.split("|")[1].strip() for line in curve.splitlines() if line.startswith("|")][2:]
    assert len(steps) == 12
    assert (steps[0], steps[-1]) == ("1", "30")


def test_a_card_before_the_first_evaluation(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    text = model_card(
        card_info(license="unknown", pipeline_tag=None), nn.Linear(3, 4), tmp_path, TrainingState()
    )
    assert "has not been evaluated" in text
    assert "Unknown. The licenses of the data" in text
    assert "pipeline_tag" not in text


INHERITED = {
    "its own": ("mit", "mit", "`mit`, as stated by its author. The initial model, `parent`, has the license"),
    "the parent's": (
        "unknown",
        "cc-by-sa-3.0",
        "`cc-by-sa-3.0`, the license of the initial model, `parent`.",
    ),
}


@pytest.mark.parametrize(("own", "license", "text"), INHERITED.values(), ids=INHERITED)
def test_a_card_names_the_initial_model_and_inherits_its_license(run, own, license, text):
    base = BaseModel("parent", "cc-by-sa-3.0")
    card = model_card(card_info(license=own, base=base), nn.Linear(3, 4), run, STATE)
    assert card.startswith(f"---\nlicense: {license}\nlibrary_name: transformers\nbase_model: parent\n")
    assert text in card


def test_the_published_model_behind_a_run_is_its_base(tmp_path):
    checkpoint = tmp_path / "run/checkpoints/step-1"
    checkpoint.mkdir(parents=True)
    assert BaseModel.read(str(checkpoint), checkpoint) == BaseModel("run", None)
    (checkpoint / "README.md").write_text("---\nlicense: unknown\n---\n\nlicense: mit\n")
    assert BaseModel.read(str(tmp_path / "run"), checkpoint) == BaseModel("run", None)
    (checkpoint / "README.md").write_text("---\nlicense: mit\ntags: [bert]\nbase_model: 'a/b'\n---\n")
    assert BaseModel.read(str(tmp_path / "run"), checkpoint) == BaseModel("a/b", "mit")


@pytest.mark.parametrize("name", ["", "my license", "mit\nx: y", "MIT"])
def test_a_license_is_an_identifier(name):
    with pytest.raises(ValueError, match="is not an identifier such as apache"):
        check_license(name)


def test_names_cannot_change_the_markdown_around_them():
    hostile = "a`</code>\n---\n# b: ```c"
    assert yaml_text(hostile) == '"a`</code>\\n---\\n# b: ```c"'
    assert yaml_text("no") == '"no"'
    assert code_span(hostile) == "````a`</code> --- # b: ```c````"
    assert code_block(hostile, "sh") == f"````sh\n{hostile}\n````"
