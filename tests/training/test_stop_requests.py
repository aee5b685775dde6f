"""The first signal asks for a stop and is answered at once; the second has its usual effect."""

import signal

import pytest

from cloze.progress import SILENT
from cloze.training.interrupts import catch_signals


@pytest.fixture(autouse=True)
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_signal_has_its_usual_effect():
    with catch_signals() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.signal_name == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_comes_while_a_line_is_printed_is_answered(capfd, monkeypatch):
    def fail(text):
        raise RuntimeError("reentrant call")

    monkeypatch.setattr(type(SILENT), "note", lambda self, text: fail(text))
    with catch_signals() as request:
        signal.raise_signal(signal.SIGINT)
    assert request
    assert capfd.readouterr().err == "stopping after this step, with a checkpoint; again to stop now\n"
