"""Reading a text without writing anything."""

import io

import pytest

from cloze.corpus import sources
from cloze.corpus.cleaning import CleaningConfig
from cloze.corpus.sources import ReadingConfig, plan_stretches
from cloze.corpus.survey import Survey, first_document, survey
from cloze.errors import InputError
from cloze.progress import Progress

ROW = '{"text": "A king had three\\u0007 daughters.\\nThey were fair."}\n'


@pytest.fixture(autouse=True)
def small_stretches(monkeypatch):
    monkeypatch.setattr(sources, "_STRETCH_BYTES", 1000)


@pytest.mark.parametrize("workers", [1, 2])
def test_everything_is_counted_whatever_the_workers(tmp_path, workers):
    (tmp_path / "a.jsonl").write_text(ROW * 500 + '{"text": "Short."}\n')
    stretches = plan_stretches([tmp_path], ReadingConfig())
    assert len(stretches) > 20
    found = survey(stretches, CleaningConfig(), workers=workers)
    assert (found.documents, found.lines, found.characters) == (500, 1000, 500 * 42)
    assert found.cleaning.control.documents == 500
    assert found.cleaning.short_documents.examples[0].before == "Short."
    assert found.cleaning.control.examples[0].where == f"{tmp_path}/a.jsonl:1"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_thing_that_is_wrong_is_named(tmp_path, workers):
    rows = [ROW] * 500
    for place in (90, 200, 499):
        rows[place] = "not JSON\n"
    (tmp_path / "a.jsonl").write_text("".join(rows))
    (tmp_path / "b.jsonl").write_text("nor this\n")
    with pytest.raises(InputError, match=r"a.jsonl:91: not JSON"):
        survey(plan_stretches([tmp_path], ReadingConfig()), CleaningConfig(), workers=workers)


def test_an_empty_text_is_counted_too(tmp_path):
    (tmp_path / "a").write_text("\n\n")
    assert survey(plan_stretches([tmp_path], ReadingConfig()), CleaningConfig()) == Survey()


def test_stdin_is_read_here(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(ROW.encode() * 9)))
    found = survey(plan_stretches(["-"], ReadingConfig()), CleaningConfig(), workers=2, progress=Progress())
    assert found.documents == 9
    assert "reading: 0 bytes documents 9" in capsys.readouterr().err


def test_the_first_document_is_shown_as_it_is(tmp_path):
    (tmp_path / "a").write_text("")
    (tmp_path / "b.jsonl").write_text('{"text": ""}\n' + ROW)
    document = first_document(plan_stretches([tmp_path], ReadingConfig()))
    assert document is not None
    assert document.lines == ("A king had three\x07 daughters.", "They were fair.")
    assert document.where == f"{tmp_path}/b.jsonl:2"
    assert first_document(plan_stretches([tmp_path / "a"], ReadingConfig())) is None
