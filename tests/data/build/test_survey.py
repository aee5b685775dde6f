"""Dry runs over text."""

import io

import pytest

from cloze.data.build.cleaning import CleaningConfig
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards
from cloze.data.build.survey import check_inputs, first_document
from cloze.errors import InputError
from cloze.progress import Progress

ROW = '{"text": "A king had three\\u0007 daughters.\\nThey were fair."}\n'


SMALL = ReadingConfig(shard_bytes=1000)


@pytest.mark.parametrize("workers", [1, 2])
def test_counts_do_not_depend_on_the_workers(tmp_path, workers):
    (tmp_path / "a.jsonl").write_text(ROW * 500 + '{"text": "Short."}\n')
    input_shards = plan_input_shards([tmp_path], SMALL)
    assert len(input_shards) > 20
    found = check_inputs(input_shards, CleaningConfig(), workers=workers)
    assert (found.documents, found.lines, found.characters) == (500, 1000, 500 * 42)
    assert found.cleaning.control.documents == 500
    assert found.cleaning.short_documents.examples[0].before == "Short."
    assert found.cleaning.control.examples[0].where == f"{tmp_path}/a.jsonl:1"
    (tmp_path / "a.jsonl").write_text("".join((ROW * 90, "not JSON\n") * 5))
    (tmp_path / "b.jsonl").write_text("nor this\n")
    with pytest.raises(InputError, match=r"a.jsonl:91: not JSON"):  # the first one
        check_inputs(plan_input_shards([tmp_path], SMALL), CleaningConfig(), workers=workers)


@pytest.mark.parametrize(("content", "documents"), [(ROW * 9, 9), ("\n\n", 0)])
def test_stdin_is_read_by_the_main_process_and_may_be_empty(monkeypatch, capsys, content, documents):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    found = check_inputs(plan_input_shards(["-"], SMALL), CleaningConfig(), workers=2, progress=Progress())
    assert found.documents == documents
    assert ("reading: 0 bytes documents 9" in capsys.readouterr().err) == (documents == 9)


def test_the_first_document_is_not_cleaned(tmp_path):
    (tmp_path / "a").write_text("")
    (tmp_path / "b.jsonl").write_text('{"text": ""}\n' + ROW)
    document = first_document(plan_input_shards([tmp_path], SMALL))
    assert document is not None
    assert document.lines == ("A king had three\x07 daughters.", "They were fair.")
    assert document.where == f"{tmp_path}/b.jsonl:2"
    assert first_document(plan_input_shards([tmp_path / "a"], SMALL)) is None
