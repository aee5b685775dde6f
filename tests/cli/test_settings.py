"""Settings: the shell and Python resolve the same, and overlay only what was given."""

from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import cloze
from cloze.config import read_toml, to_toml
from cloze.errors import InputError
from cloze.pretraining.config import ModelConfig
from helpers import resolve_pretraining


def test_a_size_replaces_the_sizes_of_a_file(tmp_path, cloze):
    file = tmp_path / "mine.toml"
    file.write_text("budget_seconds = 60.0\n[model]\nnum_hidden_layers = 7\nhidden_dropout_prob = 0.0\n")
    resolved = resolve_pretraining(file, {"data": "data", "steps": 9, "model.size": "base"})
    assert resolved.model == ModelConfig(hidden_dropout_prob=0.0)
    for flags in ("--model base --steps 9", "--set model.size=base --set steps=9"):
        assert cloze(f"pretrain --data data -c {file} {flags} --print-config").out == to_toml(resolved)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (None, {"init": "cloze-mini", "model.size": "large"}),
        (None, {"init": "cloze-mini", "model": {"num_hidden_layers": 7}}),
        (None, {"init": "cloze-mini", "model": ModelConfig(size="large")}),
        ("large.toml", {}),
        ("large.toml", {"model": {"hidden_dropout_prob": 0.0}}),
    ],
)
def test_the_encoder_of_a_checkpoint_to_start_from_is_not_set(config, settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("large.toml").write_text('init = "cloze-mini"\n[model]\nsize = "large"\n')
    with pytest.raises(InputError, match=r"^model\.\w+: init takes it from the checkpoint. Leave it out"):
        resolve_pretraining(config, {"data": "data", "steps": 9, **settings})


def test_settings_that_a_loaded_model_cannot_take_are_refused(samples):
    model = cloze.TextClassifier.load(samples.classifier, device="cpu")
    rows = [("a moor", "0")]
    other: dict[str, Any]
    for other in ({"device": "cuda"}, {"precision": "bfloat16"}, {"task": "regression"}):
        with pytest.raises(InputError, match=r"^model: a loaded model keeps its"):
            cloze.evaluate(**({"model": model, "data": rows} | other))
    with pytest.raises(InputError, match=r"^model: a loaded model keeps its"):
        cloze.explain("a moor", model=model, device="cuda")
    with pytest.raises(InputError, match=r"^workers: a loaded model answers in this process"):
        cloze.predict_file(samples.table, model=model, workers=2)
    expected = cloze.evaluate(model=samples.classifier, data=rows)
    assert cloze.evaluate("classification", model=model, data=rows) == expected


def test_a_grid_leaves_out_settings_that_a_table_gives(cloze):
    command = "finetune classification --grid --print-config --set"
    assert "learning_rates = []" in cloze(command, "optimizer={learning_rate=1e-4}").out


def test_a_fine_tuning_resumes_with_its_own_settings_alone(samples, tmp_path, monkeypatch):
    run = copytree(samples.classifier, tmp_path / "run")
    monkeypatch.chdir(Path(read_toml(run / "run.toml")["train"]).parent)
    given: dict[str, Any] = {
        "train": samples.table.name,
        "model": samples.run.name,
        "output": run,
        "resume": True,
    }
    result = cloze.finetune("classification", **given)
    assert cloze.finetune(cloze.tasks.registry.find_task("classification"), **given) == result
    (tmp_path / "seed.toml").write_text("seed = 7\n")
    with pytest.raises(InputError, match=r"resume uses the settings of the run: seed is \d+, not 7"):
        cloze.finetune("classification", config=tmp_path / "seed.toml", output=run, resume=True)
    with pytest.raises(InputError, match=r"^overwrite: cannot be combined with `resume`"):
        cloze.finetune("classification", **given, overwrite=True)
    assert cloze.finetune("classification", **given, learning_rate=0.125) == result
    assert "learning_rate = 0.125\n" in (run / "run.toml").read_text()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # torchrun repeats the command
    assert cloze.finetune("classification", **(given | {"resume": False}), learning_rate=0.125) == result


def test_a_pre_training_resumes_with_its_own_settings_alone(samples, tmp_path, monkeypatch):
    run = copytree(samples.run, tmp_path / "run")
    monkeypatch.chdir(Path(read_toml(run / "run.toml")["data"]).parent)
    result = cloze.pretrain(output=run, resume=True)
    assert cloze.pretrain(output=run, resume=True, data=samples.data.name, steps=4) == result
    with pytest.raises(InputError, match=r"resume uses the settings of the run: .*steps is 4, not 5"):
        cloze.pretrain(output=run, resume=True, steps=5)
    assert cloze.pretrain(output=run, resume=True, settings={"license": "mit"}) == result
    assert 'license = "mit"\n' in (run / "run.toml").read_text()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # torchrun repeats the command
    assert cloze.pretrain(output=run, data=samples.data.name, steps=4) == result
    with pytest.raises(InputError, match="already exists"):
        cloze.pretrain(output=run, data=samples.data.name, steps=5)


@pytest.mark.parametrize(
    ("name", "value", "other"),
    [
        ("validation_fraction", 0.2, "append"),
        ("overwrite", True, "append"),
        ("inputs", "a.txt", "texts"),
        ("format", "lines", "texts"),
        ("text_field", "body", "texts"),
        ("encoding", "cp1252", "texts"),
    ],
)
def test_keywords_exclude_each_other(samples, name, value, other):
    arguments = {name: value, **({"append": True} if other == "append" else {})}
    with pytest.raises(InputError, match=f"^{name}: cannot be combined with `{other}`"):
        cloze.build_dataset(**arguments, texts=["Rain."], output=samples.data)


def test_a_server_is_open_or_has_a_key(tmp_path):
    with pytest.raises(InputError, match=r"^api_key_file: cannot be combined with `open`"):
        cloze.serve(open=True, api_key_file=tmp_path / "key")


def test_a_run_of_several_changes_no_settings(tmp_path):
    (tmp_path / "run.toml").write_text(
        cloze.finetuning_settings("classification", model="cloze-mini", train="t.tsv", seeds=2)
    )
    refused = r"resume uses the settings of the run: optimizer\.learning_rate is 5e-05, not 0\.1"
    with pytest.raises(InputError, match=refused):
        cloze.finetune("classification", output=tmp_path, resume=True, learning_rate=0.1)


def test_a_resumed_run_with_init_keeps_its_recipe(tmp_path):
    settings: dict[str, Any] = {"data": str(tmp_path / "none"), "init": "cloze-mini", "steps": 3}
    (tmp_path / "run.toml").write_text(cloze.pretraining_settings(**settings, config="fast"))
    with pytest.raises(InputError, match="none: no such directory"):  # and not that a setting differs
        cloze.pretrain(output=tmp_path, resume=True, **settings)
