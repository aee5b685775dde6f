"""What a bar in a log file says of the time that is left."""

import pytest

from cloze import progress
from cloze.progress import Progress


def test_what_was_done_before_says_nothing_of_the_speed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with Progress().bar("training", total=1000, unit="steps", done=900) as bar:
        now = 20.0
        bar.advance(10)
        assert capsys.readouterr().err == "training: 910/1,000 steps [0:20, 3:00 left]\n"
        now = 40.0
        bar.advance(90)
    assert capsys.readouterr().err.splitlines()[-1] == "training: 1,000/1,000 steps [0:40]"
