"""The model card: its sections and the tables from the log of its run."""

import json
from pathlib import Path

import pytest
from torch import nn

from cloze.markdown import code_block, code_span, yaml_text
from cloze.training.checkpoints import TrainingState
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference, model_card

DATA = DatasetReference(role="learned from", name="a|b.tsv", extent="7 examples", sha256="ab" * 32)


STATE = TrainingState(step=30, tokens=300)


def card_of(run: Path, state: TrainingState = STATE, **changes: object) -> str:
    facts = {
        "data": [DATA],
        "measured_on": "3 examples of `dev.tsv`",
        "license": "apache-2.0",
        "pipeline_tag": "fill-mask",
        "settings": 'seed = 3\nmodel = "there"\n',
    }
    return model_card(CardInfo(**(facts | changes)), nn.Linear(3, 4), run, state)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [{"kind": "train", "step": 1, "loss": 1.0, "tokens": 10, "seconds": 0.5}]
    rows += [
        {"kind": "validation", "step": step, "loss": 1 / step, "accuracy": 0.5, "seconds": 0.5}
        for step in range(1, 31)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {"versions": {"torch": "2.13"}, "device": "cpu", "processor": "A processor"}
    (tmp_path / "environment.json").write_text(json.dumps(environment))
    return tmp_path


def test_a_card_has_all_sections_and_a_thinned_curve(run):
    header, _, body = card_of(run).removeprefix("---\n").partition("\n---\n")
    assert header.splitlines() == [
        *("license: apache-2.0", "library_name: transformers", "pipeline_tag: fill-mask"),
        "tags: [bert, cloze]",
    ]
    sections = dict(section.split("\n", 1) for section in body.split("\n## ")[1:])
    names = ["Use", "Intended use", "Limits", "Data", "Scores", "Curve", "License", "Made with", "Settings"]
    assert list(sections) == names
    assert f"| learned from | `a&#124;b.tsv` | 7 examples | `{'ab' * 32}` |" in sections["Data"]
    assert "Evaluated on 3 examples of `dev.tsv` at step 30" in sections["Scores"]
    assert "| loss | 0.0333 |\n| accuracy | 0.5000 |" in sections["Scores"]
    made = "- 16 weights\n- 30 steps over 300 tokens\n- A processor\n- torch 2.13"
    assert made in sections["Made with"]
    assert 'seed = 3\nmodel = "there"\n```' in sections["Settings"]
    assert "12 of 30 evaluations." in sections["Curve"]
    steps = [line.split("|")[1].strip() for line in sections["Curve"].splitlines() if line.startswith("|")]
    assert (len(steps[2:]), steps[2], steps[-1]) == (12, "1", "30")


def test_a_card_before_the_first_evaluation(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    text = card_of(tmp_path, TrainingState(), license="unknown", pipeline_tag=None)
    assert "has not been evaluated" in text
    assert "Unknown. The licenses of the data" in text
    assert "pipeline_tag" not in text


@pytest.mark.parametrize(
    ("own", "license", "text"),
    [
        ("mit", "mit", "`mit`, as stated by its author. The initial model, `parent`, has the license"),
        ("unknown", "cc-by-sa-3.0", "`cc-by-sa-3.0`, the license of the initial model, `parent`."),
    ],
)
def test_a_card_names_the_initial_model_and_inherits_its_license(run, own, license, text):
    card = card_of(run, license=own, base=BaseModel("parent", "cc-by-sa-3.0"))
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


def test_names_cannot_change_the_markdown_around_them():
    hostile = "a`</code>\n---\n# b: ```c"
    assert yaml_text(hostile) == '"a`</code>\\n---\\n# b: ```c"'
    assert yaml_text("no") == '"no"'
    assert code_span(hostile) == "````a`</code> --- # b: ```c````"
    assert code_block(hostile, "sh") == f"````sh\n{hostile}\n````"
