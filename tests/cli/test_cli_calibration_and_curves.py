"""Fine-tuning with a temperature, and on shares of the training data."""

import json
import re
from pathlib import Path

import pytest
from samples import NANO_TASK, Cloze, ErrorLine, Samples

NANO_FINETUNE = f"finetune classification -m {{run}} -d {{table}} -o {{out}} {' '.join(NANO_TASK)}"


@pytest.mark.slow
def test_a_calibrated_model_is_scored_without_bias(samples: Samples, tmp_path: Path, cloze: Cloze) -> None:
    rows = [f"{'a fine' if n % 2 else 'a dull'} film {n}\t{n % 2 if n % 5 else 1 - n % 2}" for n in range(60)]
    dev = tmp_path / "dev.tsv"
    dev.write_text("\n".join(["text\tlabel", *rows]))
    finetune = NANO_FINETUNE.replace("{run}", "cloze-mini").replace("{table}", str(dev))
    finetune = f"{finetune} --dev {dev} --learning-rate 1e-3 --epochs 2 --quiet"
    plain = cloze(f"{finetune} --json").json
    assert "calibration" not in plain
    command = f"{finetune} --overwrite --set classification.calibrate=true"
    printed = cloze(command).out
    scores = json.loads((tmp_path / "out/scores.json").read_text())
    calibration = scores.pop("calibration")
    assert {**scores, "run": plain["run"]} == plain
    assert calibration["temperature"] != 1
    line = r"\n  calibration error \d\.\d{4} at temperature [\d.]+, \d\.\d{4} at 1\n  on \d+ examples"
    assert re.search(line, printed)
    evaluated = cloze(f"evaluate -m {{out}} -d {dev} --json --quiet").json
    assert evaluated["calibration"]["error_before"] == pytest.approx(calibration["error_before"])
    assert re.search(line, cloze(f"evaluate -m {{out}} -d {dev} --quiet").out)


@pytest.mark.slow
def test_a_learning_curve_is_a_table_by_number_of_examples(
    samples: Samples, tmp_path: Path, cloze: Cloze
) -> None:
    printed = cloze(f"{NANO_FINETUNE} --dev {{table}} --data-fractions 1,0.3 --seeds 2 --quiet").out
    share, last = (line.split() for line in printed.splitlines()[2:4])
    assert printed.splitlines()[1].split()[:4] == ["share", "train", "examples", "accuracy"]
    assert (share[:2], last[:2]) == (["0.3", "12"], ["1", "40"])
    assert re.search(r"\n  accuracy [+-]\d\.?\d* from 12 to 40 training examples; 40 dev examples\n", printed)
    report = json.loads((tmp_path / "out/trials.json").read_text())
    by_share = {setting["data_fraction"]: setting for setting in report["settings"]}
    assert {fraction: setting["train_examples"] for fraction, setting in by_share.items()} == {0.3: 12, 1: 40}
    alone = (
        NANO_FINETUNE.replace("{out}", "{tmp}/alone")
        + " --dev {table} --set data_fraction=0.3 --json --quiet"
    )
    assert cloze(alone).json["accuracy"] == by_share[0.3]["results"][0]["accuracy"]


def test_shares_that_cannot_be_learned_from_are_refused(error_line: ErrorLine, tmp_path: Path) -> None:
    for flags, what in {
        "0.1,x": "--data-fractions: 'x' is not a number",
        "0.5,1.5": "--data-fractions: 1.5 is not above 0 and at most 1",
        "0.5,0.5": "must be distinct",
        "0.5 --set data_fraction=0.5": "data_fractions cannot be combined with data_fraction or a teacher",
    }.items():
        assert what in error_line(f"{NANO_FINETUNE} --data-fractions {flags}")
    assert not (tmp_path / "out").exists()
