"""The temperature of a classifier: its fit, the calibration error, and where it changes probabilities."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import cloze
from cloze.cli import load_verb
from cloze.tasks.arrays import softmax
from cloze.tasks.calibration import calibration_error, cross_fitted_error, fit_temperature
from cloze.tasks.config import with_settings
from cloze.tasks.texts import LabeledText
from helpers import task_of

TASK = task_of("classification", labels=("a", "b", "c"), calibrate=True)


def _overconfident(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits that are three times those by which the targets are drawn."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(count, 3))
    cumulative = softmax(logits).cumsum(-1)
    return 3 * logits, (rng.random((count, 1)) > cumulative).sum(-1).clip(max=2)


def _examples(targets: Sequence[int]) -> list[LabeledText]:
    return [LabeledText("x", gold="abc"[target]) for target in targets]


def _predictions(task: cloze.Task, logits: np.ndarray) -> list[cloze.ClassPrediction]:
    return [task.answer.decode(LabeledText("x"), [], [row]) for row in logits]


def test_calibration_error_is_the_gap_of_each_bin():
    confidences = np.array([0.95, 0.94, 1.0, 0.92, 0.62, 0.61, 0.69])
    targets = np.array([0, 1, 0, 0, 0, 0, 1])  # of the class 1 the answers are wrong
    # of the bins (0.933, 1], (0.867, 0.933], (0.6, 0.667] and (0.667, 0.733]
    gaps = [2.89 - 2, 0.08, 2 - 0.62 - 0.61, 0.69]
    with np.errstate(divide="ignore"):
        logits = np.log(np.stack([confidences, 1 - confidences], axis=1))
    assert calibration_error(logits, targets) == pytest.approx(sum(gaps) / 7)


def test_calibration_error_divides_logits_by_the_temperature():
    logits, targets = _overconfident(200)
    without = calibration_error(logits / 3, targets)
    assert calibration_error(logits, targets, 3.0) == pytest.approx(without)
    assert calibration_error(logits, targets) > without + 0.05


@pytest.mark.parametrize("seed", range(5))
def test_temperature_has_the_highest_likelihood(seed):
    logits, targets = _overconfident(300, seed)

    def loss(temperature: float) -> float:
        return -float(np.log(softmax(logits / temperature)[np.arange(300), targets]).sum())

    best = minimize_scalar(loss, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-9}).x
    assert fit_temperature(logits, targets) == pytest.approx(best, rel=1e-4)
    assert 2 < best < 4.5


def test_temperature_is_bounded_where_all_answers_are_right_or_wrong():
    logits = np.array([[2.0, 0.0], [0.0, 2.0]])
    assert fit_temperature(logits, np.array([0, 1])) == pytest.approx(0.1)
    assert fit_temperature(logits, np.array([1, 0])) == pytest.approx(10)


def test_cross_fitted_error_has_for_each_half_the_temperature_of_the_other():
    """A half whose temperature is another: fitted on itself it would be calibrated, by the other it is not."""
    logits, targets = _overconfident(400)
    one, other = np.array_split(np.random.default_rng(0).permutation(400), 2)
    logits[one] *= 4
    expected, of_itself = logits.copy(), logits.copy()
    for half, fitted_on in ((one, other), (other, one)):
        expected[half] /= fit_temperature(logits[fitted_on], targets[fitted_on])
        of_itself[half] /= fit_temperature(logits[half], targets[half])
    assert cross_fitted_error(logits, targets) == pytest.approx(calibration_error(expected, targets))
    assert cross_fitted_error(logits, targets) > 2 * calibration_error(of_itself, targets)


def test_temperature_changes_probabilities_and_no_labels():
    logits, targets = _overconfident(400)
    examples, plain = _examples(targets), _predictions(TASK, logits)
    answer, temperature = TASK.answer.calibrated(examples, plain)
    tuned = replace(TASK, answer=answer)
    assert (
        tuned.answer.temperature == temperature == pytest.approx(fit_temperature(logits, targets), rel=1e-6)
    )
    calibrated = _predictions(tuned, logits / temperature)
    assert [p.label for p in calibrated] == [p.label for p in plain]
    assert tuned.score(examples, calibrated) == TASK.score(examples, plain)
    assert [*calibrated[0].probabilities.values()] == pytest.approx(
        softmax(logits[0] / tuned.answer.temperature)
    )
    assert calibrated[0].probability == max(calibrated[0].probabilities.values())
    on_dev, on_others = (
        tuned.answer.calibration(examples, calibrated, is_dev=is_dev) for is_dev in (True, False)
    )
    assert on_dev.temperature == on_others.temperature == tuned.answer.temperature
    assert on_dev.error_before == pytest.approx(calibration_error(logits, targets))
    assert on_dev.error == pytest.approx(cross_fitted_error(logits, targets))
    assert on_others.error == pytest.approx(calibration_error(logits, targets, tuned.answer.temperature))
    assert answer.calibrated(examples, calibrated) == (answer, 1.0)  # once
    answers = list(zip(examples, calibrated, strict=True))
    _, printed = load_verb("evaluate").show(
        cloze.EvaluationResult({}, data="dev", task=tuned, answers=answers)
    )
    errors = f"{on_others.error:.4f} at temperature {temperature:.3g}, {on_others.error_before:.4f} at 1"
    assert f"  calibration error {errors}\n" in printed


def test_equal_logits_keep_the_first_label():
    logits = np.array([1.0, 1.0 + 1e-16, 30.0, 30.0])
    task = task_of("classification", labels=("a", "b", "c", "d"))
    assert task.answer.decode(LabeledText("x"), [], [logits]).label == "c"


def test_probabilities_are_calibrated_only_if_asked_and_with_enough_examples():
    logits, targets = _overconfident(49)
    examples, predictions = _examples(targets), _predictions(TASK, logits)
    assert TASK.answer.calibrated(examples, predictions) == (TASK.answer, 1.0)
    assert TASK.answer.calibration(examples, predictions, is_dev=True) is None
    (note,) = TASK.answer.notes([], examples, None)
    assert note.startswith("probabilities are not calibrated: there are 49 dev examples")
    plain = task_of("classification", labels=TASK.answer.labels)
    assert plain.answer.calibrated(examples * 2, predictions * 2) == (plain.answer, 1.0)
    assert list(plain.answer.notes([], examples, None)) == []


def test_predictions_of_a_file_that_lack_labels_are_not_calibrated():
    logits, targets = _overconfident(60)
    examples, predictions = _examples(targets), _predictions(TASK, logits)
    top = [replace(p, probabilities={p.label: p.probability}) for p in predictions]
    assert TASK.answer.calibration(examples, top, is_dev=False) is None
    assert TASK.with_settings(dict(labels=())).answer.calibration(examples, predictions, is_dev=False) is None


def test_temperature_is_fitted_and_not_given_and_averaged():
    assert TASK.with_settings(dict(temperature=2.0)).averaged([TASK]).answer.temperature == 1.5
    with pytest.raises(cloze.InputError, match="temperature cannot change after training"):
        with_settings(TASK, {"classification.temperature": 2}, is_trained=True)
    given = with_settings(TASK, {"classification.temperature": 2})
    with pytest.raises(cloze.InputError, match=r"^classification\.temperature: is fitted .*calibrate=true"):
        given.fit(_examples([0, 1]))
    with pytest.raises(cloze.InputError, match=r"temperature: 0.0 is not above 0"):
        with_settings(TASK, {"classification.temperature": 0})
