"""Damage in the small files of a run is found and named, and a resumed run has the settings that it was made with."""

import json
import os
import random
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import NANO, Cloze, Samples

from cloze import run_files
from cloze.errors import InputError
from cloze.model_paths import find_model_directory
from cloze.reports.describe import describe
from cloze.run_files import CHECKSUMS, verify_run_files, write_run_files
from cloze.training.metrics_log import read_metrics

pytestmark = pytest.mark.trials("corruption")

Damage = Callable[[Path], object]


@pytest.fixture
def run(samples: Samples, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples.run, tmp_path / "run"))


@pytest.fixture
def classifier(samples: Samples, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples.classifier, tmp_path / "classifier"))


def change_a_digit(file: Path) -> None:
    """Change the last digit of a file to the next one."""
    text = file.read_text()
    at = max(match.start() for match in re.finditer(r"\d", text))
    file.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


DAMAGE: dict[str, Damage] = {
    "digit": change_a_digit,
    "cut": cut_in_half,
    "emptied": lambda file: os.truncate(file, 0),
    "deleted": Path.unlink,
    "of zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
}


@pytest.mark.protected
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    "name",
    ["run.toml", "metrics.jsonl", "environment.json", "scores.json", "latest", "best", CHECKSUMS],
)
def test_info_names_a_damaged_file_of_a_run(classifier: Path, cloze: Cloze, name: str, damage: str) -> None:
    DAMAGE[damage](classifier / name)
    line = cloze(f"info {classifier}", code=2).err
    if name == CHECKSUMS and damage == "digit":  # the file with the other checksum is named
        assert CHECKSUMS in line
    else:
        assert line.startswith(f"error: {classifier / name}")
    assert line.count("\n") == 1


@pytest.mark.protected
@pytest.mark.parametrize("kind", ["run", "checkpoint"])
def test_info_names_the_missing_manifest_of_a_checkpoint(run: Path, cloze: Cloze, kind: str) -> None:
    checkpoint = sorted((run / "checkpoints").iterdir())[0]
    (checkpoint / "manifest.json").unlink()
    line = cloze(f"info {run if kind == 'run' else checkpoint}", code=2).err
    assert str(checkpoint) in line
    assert "manifest.json" in line


@pytest.mark.protected
def test_info_names_the_missing_manifest_of_the_bundled_model(
    tmp_path: Path, cloze: Cloze, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "cloze-mini"
    shutil.copytree(find_model_directory("cloze-mini"), model, ignore=shutil.ignore_patterns("manifest.json"))
    monkeypatch.setattr("cloze.model_paths._BUNDLED_MODELS", tmp_path)
    assert f"{model}/manifest.json: missing" in cloze("info cloze-mini", code=2).err


CHANGED_DIGITS = {
    "optimizer.weight_decay": ("weight_decay = 0.01", "weight_decay = 0.02"),
    "optimizer.epsilon": ("epsilon = 1e-06", "epsilon = 1e-05"),
    "optimizer.beta2": ("beta2 = 0.999", "beta2 = 0.998"),
    "optimizer.max_grad_norm": ("max_grad_norm = 1.0", "max_grad_norm = 2.0"),
    "micro_batch_tokens": ("micro_batch_tokens = 256", "micro_batch_tokens = 255"),
    "checkpoints.every_minutes": ("every_minutes = 10.0", "every_minutes = 20.0"),
}


@pytest.mark.protected
@pytest.mark.parametrize("setting", CHANGED_DIGITS)
def test_a_changed_digit_in_the_settings_is_named_on_resume(run: Path, cloze: Cloze, setting: str) -> None:
    settings, (old, new) = (run / "run.toml").read_text(), CHANGED_DIGITS[setting]
    assert settings.count(old) == 1
    (run / "run.toml").write_text(settings.replace(old, new))
    for command in (f"pretrain -o {run} --resume", f"info {run}"):
        printed = cloze(command, code=2).err
        assert printed.startswith(f"error: {run / 'run.toml'}: differs from ")
        assert f"{setting} is " in printed
    copy = re.search(r"differs from (\S+):", printed)
    assert copy is not None
    shutil.copy(copy[1], run / "run.toml")
    cloze(f"pretrain -o {run} --resume --quiet")
    cloze(f"info {run}")


@pytest.mark.protected
def test_settings_are_restored_from_the_copy_that_the_message_names(run: Path, cloze: Cloze) -> None:
    (run / "run.toml").write_text("damaged = = 1\n")
    printed = cloze(f"pretrain -o {run} --resume", code=2).err
    copy = re.search(r"Copy (\S+) over it", printed)
    assert copy is not None
    shutil.copy(copy[1], run / "run.toml")
    cloze(f"info {run}")


@pytest.mark.protected
def test_a_run_with_a_damaged_log_is_not_resumed_unless_told(run: Path, cloze: Cloze) -> None:
    change_a_digit(run / "metrics.jsonl")
    printed = cloze(f"pretrain -o {run} --resume", code=2).err
    assert printed.startswith(f"error: {run / 'metrics.jsonl'}: damaged")
    assert "deleting checksums.json accepts" in printed
    (run / CHECKSUMS).unlink()
    cloze(f"pretrain -o {run} --resume --quiet")
    cloze(f"info {run}")


def test_a_setting_changed_by_set_is_said_in_the_log(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    run = tmp_path / "run"
    new = f"pretrain --data {samples.data} -o {run} --steps 4 {shlex.join(NANO)} --set checkpoints.every_steps=1"
    cloze(f"{new} --quiet")
    shutil.rmtree(run / "checkpoints/step-00000004")
    printed = cloze(f"pretrain -o {run} --resume --set optimizer.learning_rate=5e-4")
    assert "optimizer.learning_rate is 0.0005 from step 3 on, 0.001 before" in printed.err
    (row,) = [row for row in read_metrics(run) if row["kind"] == "changed"]
    assert row == {
        "kind": "changed",
        "step": 3,
        "setting": "optimizer.learning_rate",
        "before": 0.001,
        "after": 0.0005,
    }
    assert "learning_rate = 0.0005" in (run / "run.toml").read_text()
    assert "learning_rate = 0.0005" in (run / "checkpoints/step-00000004/training/run.toml").read_text()
    cloze(f"pretrain -o {run} --resume --quiet")
    cloze(f"info {run}")
    for setting in ("optimizer.weight_decay=0.02", "seed=9"):
        printed = cloze(f"pretrain -o {run} --resume --set {setting}", code=2)
        assert f"{setting.partition('=')[0]} is " in printed.err
    (run / "run.toml").write_text((run / "run.toml").read_text().replace("beta2 = 0.999", "beta2 = 0.998"))
    printed = cloze(f"pretrain -o {run} --resume --set optimizer.learning_rate=1e-4", code=2)
    assert "optimizer.beta2 is 0.998, not 0.999" in printed.err  # the change does not hide the damage


def test_moved_data_of_a_fine_tuning_are_named_by_set(
    samples: Samples, classifier: Path, tmp_path: Path, cloze: Cloze
) -> None:
    table = shutil.copy(samples.table, tmp_path / "moved.tsv")
    cloze(f"finetune -o {classifier} --resume --set train={table} --quiet")
    assert f'train = "{table}"' in (classifier / "run.toml").read_text()
    cloze(f"info {classifier}")


def test_a_run_without_checksums_resumes_and_gets_them(run: Path, cloze: Cloze) -> None:
    """Runs of earlier versions have neither checksums nor copies of their settings."""
    (run / CHECKSUMS).unlink()
    for checkpoint in (run / "checkpoints").iterdir():
        (checkpoint / "training/run.toml").unlink()
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        del manifest["files"]["training/run.toml"]
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    cloze(f"info {run}")
    cloze(f"pretrain -o {run} --resume --quiet")
    cloze(f"info {run}")
    assert (run / CHECKSUMS).is_file()


@pytest.mark.protected
@pytest.mark.parametrize("call", range(1, 6))
def test_a_kill_between_two_writes_leaves_no_file_that_seems_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    write_run_files(tmp_path, {"latest": "one\n", "best": "one\n"})
    (tmp_path / "of-an-earlier-version").write_text("old\n")
    write, calls = run_files.write_text, 0

    def write_or_die(path: Path, text: str, **options: bool) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise KeyboardInterrupt
        write(path, text, **options)

    monkeypatch.setattr(run_files, "write_text", write_or_die)
    new = {"latest": "two\n", "best": "two\n", "of-an-earlier-version": "new\n"}
    with pytest.raises(KeyboardInterrupt):
        write_run_files(tmp_path, new)
    assert verify_run_files(tmp_path) in (2, 3)
    write_run_files(tmp_path, new)
    assert verify_run_files(tmp_path) == 3
    (tmp_path / "latest").write_text("one\n")
    with pytest.raises(InputError, match="latest: damaged"):
        verify_run_files(tmp_path)


FLIPS = 150


@pytest.mark.protected
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.trials("corruption", FLIPS)
def test_info_finds_any_flipped_bit(samples: Samples, tmp_path: Path) -> None:
    """Of a run of each verb and of a data set, in any file but the card, which may be edited."""
    choose = random.Random(7)
    directories = [
        Path(shutil.copytree(path, tmp_path / path.name))
        for path in (samples.run, samples.classifier, samples.data)
    ]
    files = [
        (directory, path)
        for directory in directories
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and path.stat().st_size
        and path.name != "README.md"
        and "tensorboard" not in path.parts
    ]
    passed_over = []
    for _ in range(FLIPS):
        directory, path = choose.choice(files)
        whole = path.read_bytes()
        place, bit = choose.randrange(len(whole)), choose.randrange(8)
        card = re.search(rb'"README.md": {[^}]*}', whole)
        if card is not None and card.start() <= place < card.end():  # of a manifest: the card is not verified
            continue
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            describe(directory)
            passed_over.append((path, place, bit))
        except InputError:
            pass
        path.write_bytes(whole)
    assert not passed_over
