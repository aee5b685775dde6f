"""Names and labels with escape sequences reach no terminal, in text or JSON, on stdout or stderr."""

import json
import shutil
import unicodedata
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from samples import USES, Printed, Samples, fill_in

pytestmark = [pytest.mark.protected, pytest.mark.trials("attack")]

HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f"
"""Sets the title, clears the screen, and writes red: in seven bits and in eight."""
VERBS = [verb for verb in USES if verb != "serve"]
"""A server does not end."""


@pytest.fixture
def hostile(samples: Samples, tmp_path: Path) -> dict[str, Path]:
    """The samples in a directory with such a name, with such labels, and with such words."""
    directory = tmp_path / HOSTILE
    directory.mkdir()
    copied = Samples(
        *(
            Path(
                shutil.copytree(path, directory / path.name)
                if path.is_dir()
                else shutil.copy(path, directory)
            )
            for path in (getattr(samples, name) for name in asdict(samples))
        )
    )
    rows = [f"It was dark {HOSTILE} {number}\t{HOSTILE}{number % 2}" for number in range(40)]
    copied.table.write_text("\n".join(["text\tlabel", *rows, ""]))
    (directory / HOSTILE).mkdir()
    return {"tmp": directory / HOSTILE, "checkpoint": copied.checkpoint, **asdict(replace(copied))}


def assert_harmless(printed: Printed, verb: str) -> None:
    for text in printed:
        left = {character for character in text if unicodedata.category(character) == "Cc"} - {*"\n\t"}
        assert not left, (verb, text)


@pytest.mark.slow
def test_escape_sequences_are_not_printed(hostile, cloze):
    hostile |= {"classifier": hostile["tmp"] / "classifier"}  # with hostile labels
    for verb in VERBS:
        assert_harmless(cloze(fill_in(USES[verb], hostile)), verb)
    assert_harmless(cloze(fill_in("predict -m {classifier} {table}", hostile)), "predict on stdout")


def test_json_has_escapes_of_its_own(hostile, cloze):
    printed = cloze(fill_in(f"{USES['baseline']} --json", hostile))
    assert_harmless(printed, "baseline --json")
    assert HOSTILE in str(json.loads(printed.out)["data"])
    printed = cloze(fill_in("fill -m {run}", hostile), f"It was {HOSTILE} [MASK].", "--json")
    assert_harmless(printed, "fill --json")
    assert HOSTILE in printed.json["text"]
