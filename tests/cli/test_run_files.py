"""Damage in the small files of a run is found and named, and a resumed run has the settings that it was made with."""

import os
import random
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import NANO, Samples

from cloze.errors import InputError
from cloze.model_paths import find_model_directory
from cloze.reports.describe import describe
from cloze.training.metrics_log import read_metrics

pytestmark = pytest.mark.trials("corruption")

Damage = Callable[[Path], object]


@pytest.fixture
def run(samples: Samples, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples.run, tmp_path / "run", symlinks=True))


@pytest.fixture
def classifier(samples: Samples, tmp_path: Path) -> Path:
    return Path(shutil.copytree(samples.classifier, tmp_path / "classifier", symlinks=True))


def change_a_digit(file: Path) -> None:
    """Change the last digit of a file to the next one."""
    text = file.read_text()
    at = max(match.start() for match in re.finditer(r"\d", text))
    file.write_text(f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}")


def cut_in_half(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    os.truncate(file, 0)


def of_zeros(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


def with_another_digit(link: Path) -> None:
    target = os.readlink(link)
    relink(link, f"{target[:-1]}{(int(target[-1]) + 1) % 10}")


def cut_short(link: Path) -> None:
    relink(link, os.readlink(link)[:-1])


def relink(link: Path, target: str) -> None:
    link.unlink()
    link.symlink_to(target)


def as_a_file(link: Path) -> None:
    """Replace a link by the beginning of the file that programs without links write."""
    target = os.readlink(link)
    link.unlink()
    link.write_text(target[:-1])


def as_an_empty_directory(link: Path) -> None:
    """Replace a link as `shutil.make_archive` does in ZIP files."""
    link.unlink()
    link.mkdir()


UNREADABLE: tuple[Damage, ...] = (cut_in_half, emptied, of_zeros)
DAMAGED_LINKS: tuple[Damage, ...] = (with_another_digit, cut_short, as_a_file, as_an_empty_directory)
DAMAGED_FILES: dict[str, tuple[Damage, ...]] = {
    "run.toml": (change_a_digit, *UNREADABLE),
    "environment.json": UNREADABLE,
    "scores.json": UNREADABLE,
    "latest": DAMAGED_LINKS,
    "best": DAMAGED_LINKS,
}
"""Damage by file of a run; other changes of a value are not found, since the files have no checksums."""


@pytest.mark.protected
@pytest.mark.parametrize(
    ("name", "damage"), [(name, damage) for name, kinds in DAMAGED_FILES.items() for damage in kinds]
)
def test_info_names_a_damaged_file_of_a_run(classifier, cloze, name, damage):
    damage(classifier / name)
    line = cloze(f"info {classifier}", code=2).err
    assert line.startswith(f"error: {classifier / name}")
    assert line.count("\n") == 1


def test_info_describes_a_copy_of_a_checkpoint(run, tmp_path, cloze):
    checkpoint = sorted((run / "checkpoints").iterdir())[-1]
    copy = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    expected = cloze(f"info {checkpoint}").out.replace(str(checkpoint), str(copy))
    assert "steps trained" in expected
    assert cloze(f"info {copy}").out == expected


@pytest.mark.protected
@pytest.mark.parametrize("kind", ["run", "checkpoint"])
def test_info_names_the_missing_manifest_of_a_checkpoint(run, cloze, kind):
    checkpoint = sorted((run / "checkpoints").iterdir())[0]
    (checkpoint / "manifest.json").unlink()
    line = cloze(f"info {run if kind == 'run' else checkpoint}", code=2).err
    assert str(checkpoint) in line
    assert "manifest.json" in line


@pytest.mark.protected
def test_info_names_the_missing_manifest_of_the_bundled_model(tmp_path, cloze, monkeypatch):
    model = tmp_path / "cloze-mini"
    shutil.copytree(find_model_directory("cloze-mini"), model, ignore=shutil.ignore_patterns("manifest.json"))
    monkeypatch.setattr("cloze.model_paths._BUNDLED_MODELS", tmp_path)
    assert f"{model}/manifest.json: missing" in cloze("info cloze-mini", code=2).err


@pytest.mark.protected
@pytest.mark.parametrize("damage", DAMAGED_LINKS)
def test_a_damaged_link_is_named_before_it_is_written_again(run, cloze, damage):
    intact = {name: os.readlink(run / name) for name in ("latest", "best")}
    for name in intact:
        damage(run / name)
    printed = cloze(f"pretrain -o {run} --resume").err
    for name, target in intact.items():
        assert re.search(f"warning: {run / name}: (names |is not a link to a checkpoint)", printed)
        assert os.readlink(run / name) == target


CHANGED_DIGITS = {
    "optimizer.weight_decay": ("weight_decay = 0.01", "weight_decay = 0.02"),
    "optimizer.epsilon": ("epsilon = 1e-06", "epsilon = 1e-05"),
    "optimizer.beta2": ("beta2 = 0.999", "beta2 = 0.998"),
    "optimizer.max_grad_norm": ("max_grad_norm = 1.0", "max_grad_norm = 2.0"),
}


@pytest.mark.protected
@pytest.mark.parametrize("setting", CHANGED_DIGITS)
def test_a_changed_digit_in_the_settings_is_named_on_resume(run, cloze, setting):
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
def test_settings_are_restored_from_the_copy_that_the_message_names(run, cloze):
    (run / "run.toml").write_text("damaged = = 1\n")
    printed = cloze(f"pretrain -o {run} --resume", code=2).err
    copy = re.search(r"Copy (\S+) over it", printed)
    assert copy is not None
    shutil.copy(copy[1], run / "run.toml")
    cloze(f"info {run}")


def test_a_setting_changed_by_set_is_said_in_the_log(samples, tmp_path, cloze):
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


def test_moved_data_of_a_fine_tuning_are_named_by_set(samples, classifier, tmp_path, cloze):
    table = shutil.copy(samples.table, tmp_path / "moved.tsv")
    cloze(f"finetune -o {classifier} --resume --set train={table} --quiet")
    assert f'train = "{table}"' in (classifier / "run.toml").read_text()
    cloze(f"info {classifier}")


FLIPS = 150


@pytest.mark.protected
@pytest.mark.exhaustive
@pytest.mark.timeout(1200)
@pytest.mark.trials("corruption", FLIPS)
def test_info_finds_any_flipped_bit(samples, tmp_path):
    """Of checkpoints of each verb, a data set and a vocabulary, in any file but the card, which may be edited."""
    choose = random.Random(7)
    directories = [
        Path(shutil.copytree(path, tmp_path / path.name, symlinks=True))
        for path in (samples.run, samples.classifier, samples.data, samples.vocab)
    ]
    files = [
        (directory, path)
        for directory in directories
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and path.stat().st_size
        and path.name != "README.md"
        and (
            path.parent.parent / "manifest.json"
            if path.parent.name == "training"
            else path.with_name("manifest.json")
        ).exists()
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
