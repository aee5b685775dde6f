"""Parts become a data set: duplicates, held-out documents, appending and kills."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze import artifacts
from cloze.data.build import directory as build_directory
from cloze.data.build.cleaning import CleaningConfig
from cloze.data.build.corpus import build_dataset
from cloze.data.build.finalize import read_summary
from cloze.data.build.input_shards import BuildRun, ReadingConfig
from cloze.data.build.parts import BuildConfig, BuildSummary
from cloze.data.dataset import Dataset, DatasetInfo, choose_held_out_threshold
from cloze.errors import InputError, RunError
from cloze.progress import Progress
from corpora import Rows, rows_of, save_vocabulary
from helpers import read_tree

WORDS = [f"w{n}" for n in range(60)]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vocabulary(tmp_path_factory.mktemp("vocabulary"), [".", *WORDS])


def paragraph(number: int, *, sentences: int = 4) -> str:
    """Return a paragraph that is long enough to be looked for, the same for the same number."""
    rng = random.Random(number)
    return " ".join(" ".join(rng.choices(WORDS, k=10)).capitalize() + "." for _ in range(sentences))


def document(*numbers: int) -> str:
    return "\n".join(map(paragraph, numbers)) + "\n"


def write(path: Path, *texts: str) -> Path:
    path.write_text("\n".join(texts))
    return path


def rows(data: Path) -> Rows:
    return rows_of(Dataset.open(data).documents)


PARAGRAPHS = ReadingConfig(text_format="paragraphs")
SENTENCES = ReadingConfig(text_format="sentences")


@pytest.fixture(params=[10**6, 1], ids=["one part", "a part a document"])
def config(request: pytest.FixtureRequest) -> BuildConfig:
    return BuildConfig(reading=ReadingConfig(text_format="paragraphs", part_characters=request.param))


def test_duplicate_documents_are_dropped(tmp_path, vocabulary, config, capsys):
    text = write(
        tmp_path / "text", document(1), document(2, 3), document(1), document(4), document(2, 3), document(1)
    )
    once = write(tmp_path / "once", document(1), document(2, 3), document(4))
    expected = build_dataset([once], vocabulary, tmp_path / "expected", config)
    summary = build_dataset([text], vocabulary, tmp_path / "data", config, BuildRun(progress=Progress()))
    assert rows(tmp_path / "data") == rows(tmp_path / "expected")
    assert (summary.documents, summary.sentences, summary.tokens) == (3, expected.sentences, expected.tokens)
    repeats = summary.duplicate_documents
    assert (repeats.dropped, repeats.kept, repeats.tokens) == (3, 0, (4 + 8 + 4) * 11)
    assert summary.duplicate_paragraphs.dropped == 0
    notes = capsys.readouterr().err
    assert "dropped 3 duplicate documents (176 tokens)" in notes
    assert " bytes documents 6 tokens 352 " in notes


def test_duplicate_paragraphs_are_dropped(tmp_path, vocabulary, config):
    short, long = (f"{first}{' w2' * 32}." for first in ("W1", "W10"))  # of 99 and 100 characters
    text = write(
        tmp_path / "text",
        document(1, 2) + short,
        "",
        paragraph(3) + "\n" + short + "\n" + paragraph(2) + "\n" + paragraph(4) + "\n" + paragraph(3) + "\n",
        document(2, 1),  # nothing of it is left
        document(5) + long + "\n" + long,
    )
    once = write(
        *(tmp_path / "once", document(1, 2) + short, "", document(3) + short + "\n" + document(4)),
        document(5) + long,
    )
    build_dataset([once], vocabulary, tmp_path / "expected", config)
    summary = build_dataset([text], vocabulary, tmp_path / "data", config)
    assert rows(tmp_path / "data") == rows(tmp_path / "expected")
    assert (summary.documents, summary.empty_documents) == (3, 1)
    repeats = summary.duplicate_paragraphs
    assert (repeats.dropped, repeats.kept, repeats.tokens) == (5, 0, 4 * 44 + 34)
    assert summary.duplicate_documents.dropped == 0


@pytest.mark.parametrize(
    ("without", "reading", "dropped", "kept"),
    [
        ((), PARAGRAPHS, (1, 1), (0, 0)),
        (("duplicate_documents",), PARAGRAPHS, (0, 3), (1, 0)),
        (("duplicate_paragraphs",), PARAGRAPHS, (1, 0), (0, 1)),
        (("duplicate_documents", "duplicate_paragraphs"), PARAGRAPHS, (0, 0), (1, 3)),
        ((), SENTENCES, (0, 0), (1, 0)),  # as Google's format it is its author's choice
    ],
)
def test_steps_can_be_skipped(tmp_path, vocabulary, without, reading, dropped, kept):
    text = write(tmp_path / "text", document(1, 2), document(1, 2), document(2, 3))
    cleaning = CleaningConfig(without=without)
    config = BuildConfig(reading=replace(reading, cleaning=cleaning))
    summary = build_dataset([text], vocabulary, tmp_path / "data", config)
    repeats = (summary.duplicate_documents, summary.duplicate_paragraphs)
    assert tuple(r.dropped for r in repeats) == dropped
    assert tuple(r.kept for r in repeats) == kept
    if not any(dropped):
        expected = [8, 8, 8] if reading == PARAGRAPHS else [2, 2, 2]
        assert [len(row) for row in rows(tmp_path / "data")] == expected


def test_the_report_has_the_summary(tmp_path, vocabulary):
    text = write(
        tmp_path / "text", document(1, 2), document(1, 2), document(2, 3), "\u200d\n", "e\u0301\u200b"
    )
    reading = ReadingConfig(text_format="paragraphs", cleaning=CleaningConfig(without=("short_documents",)))
    summary = build_dataset([text], vocabulary, tmp_path / "data", BuildConfig(reading=reading))
    assert read_summary(tmp_path / "data") == summary
    assert (summary.empty_documents, summary.cleaning.unicode.documents) == (1, 1)
    (build,) = json.loads((tmp_path / "data" / "report.json").read_text())["builds"]
    assert build["duplicate_documents"]["dropped"] == 1
    assert BuildSummary.from_dict(build) == summary


DIGESTS = st.lists(
    st.integers(0, 2**64 - 1) | st.integers(0, 3) | st.integers(2**64 - 3, 2**64 - 1), max_size=30
)


@given(digests=DIGESTS, fraction=st.floats(0.001, 0.999))
def test_at_least_two_documents_are_in_each_split(digests, fraction):
    below = choose_held_out_threshold(np.array(digests, np.uint64), fraction, on_each_side=2)
    held_out = sum(digest < below for digest in digests)
    possible = any(
        sum(d <= edge for d in digests) >= 2 and sum(d > edge for d in digests) >= 2 for edge in digests
    )
    assert (held_out >= 2 and len(digests) - held_out >= 2) if possible else below == 0
    near = int(fraction * 2**64)
    if sum(d < near for d in digests) >= 2 and sum(d >= near for d in digests) >= 2:
        assert below == near


@pytest.mark.parametrize(
    ("num_documents", "sentences", "least", "most"),
    [(8, 40, 0.24, 0.26), (600, 1, 0.1, 0.103), (600, 40, 0.0369, 0.04)],
)
@pytest.mark.slow
def test_a_tenth_is_held_out_until_40_000_tokens(tmp_path, vocabulary, num_documents, sentences, least, most):
    """Of eight documents two, as there are at least two."""
    numbers = [range(1000 * n, 1000 * n + sentences + 1) for n in range(num_documents)]
    text = write(tmp_path / "text", *(document(*of) for of in numbers))
    build_dataset([text], vocabulary, tmp_path / "data", BuildConfig(reading=PARAGRAPHS))
    dataset = Dataset.open(tmp_path / "data")
    tokens = dataset.split("validation").token_counts(dataset.vocab_size).sum()
    assert least <= tokens / dataset.info.tokens <= most


def splits(data: Path) -> tuple[Rows, Rows]:
    dataset = Dataset.open(data)
    return rows_of(dataset.split("train")), rows_of(dataset.split("validation"))


@pytest.mark.parametrize("reading", [PARAGRAPHS, SENTENCES], ids=["paragraphs", "sentences"])
def test_appending_equals_building_from_both(tmp_path, vocabulary, reading):
    texts = [document(n, n + 1000, n % 7) for n in range(40)]
    first = write(tmp_path / "first", *texts[:25])
    second = write(tmp_path / "second", *texts[20:], document(3, 1005))
    config = BuildConfig(reading=reading, validation_fraction=0.2)
    both = build_dataset([first, second], vocabulary, tmp_path / "both", config)
    one = build_dataset([first], vocabulary, tmp_path / "data", config)
    before = read_tree(tmp_path / "data")
    held_out_before = splits(tmp_path / "data")[1]
    two = build_dataset([second], None, tmp_path / "data", BuildConfig(reading=reading), append=True)
    assert rows(tmp_path / "data") == rows(tmp_path / "both")
    assert splits(tmp_path / "data") == splits(tmp_path / "both")
    assert [row for row in splits(tmp_path / "data")[1] if row in held_out_before] == held_out_before
    added = (one + two).duplicate_documents, (one + two).duplicate_paragraphs
    assert [(r.dropped, r.kept, r.tokens) for r in added] == [
        (r.dropped, r.kept, r.tokens) for r in (both.duplicate_documents, both.duplicate_paragraphs)
    ]
    after = read_tree(tmp_path / "data")
    assert {name: after[name] for name in before if name.endswith(".arrow")} == {
        name: content for name, content in before.items() if name.endswith(".arrow")
    }
    info = [json.loads((tmp_path / name / "dataset.json").read_text()) for name in ("data", "both")]
    assert info[0] == info[1]
    assert len(json.loads(after["report.json"])["builds"]) == 2
    artifacts.verify(tmp_path / "data")


def whole(text: str) -> list[str]:
    return [text]


@pytest.mark.parametrize(
    ("how", "sentences"), [({"language": "de"}, 2), ({"splitter": f"{Path(__file__).stem}:whole"}, 1)]
)
def test_appended_text_is_split_as_the_data_set_was(tmp_path, vocabulary, how, sentences):
    first, second = (
        write(tmp_path / name, f"W{n} kam am 3. Mai an. Dann ging w{n}.\n") for n, name in enumerate("ab")
    )
    config = BuildConfig(reading=PARAGRAPHS, **how)
    assert build_dataset([first], vocabulary, tmp_path / "data", config).sentences == sentences
    copytree(tmp_path / "data", tmp_path / "english")
    again = BuildConfig(reading=PARAGRAPHS)
    assert build_dataset([second], None, tmp_path / "data", again, append=True).sentences == sentences
    english = replace(again, language="en")
    assert build_dataset([second], None, tmp_path / "english", english, append=True).sentences == 3
    infos = [Dataset.open(tmp_path / name).info for name in ("data", "english")]
    assert {(info.language, info.splitter) for info in infos} == {
        (how.get("language", "en"), how.get("splitter"))
    }


def test_appending_holds_out_documents_if_none_were(tmp_path, vocabulary):
    config = BuildConfig(reading=PARAGRAPHS)
    build_dataset([write(tmp_path / "a", paragraph(1) + "\n")], vocabulary, tmp_path / "data", config)
    assert Dataset.open(tmp_path / "data").info.held_out_below == 0
    more = write(tmp_path / "b", *(document(n) for n in range(2, 9)))
    build_dataset([more], None, tmp_path / "data", config, append=True)
    assert len(Dataset.open(tmp_path / "data").split("validation")) == 2


@pytest.mark.parametrize(("fraction", "share"), [(None, 0.1), (0.25, 0.25)])
def test_the_end_of_a_single_document_is_held_out(tmp_path, vocabulary, fraction, share):
    text = write(tmp_path / "text", document(*range(50)))
    config = BuildConfig(reading=PARAGRAPHS, validation_fraction=fraction)
    build_dataset([text], vocabulary, tmp_path / "data", config)
    dataset = Dataset.open(tmp_path / "data")
    train, held_out = splits(tmp_path / "data")
    assert dataset.supports_pairs
    assert dataset.info.documents == 1
    assert train + held_out == rows(tmp_path / "data")
    assert sum(map(len, held_out)) == pytest.approx(200 * share, abs=10)
    assert min(len(train), len(held_out)) >= 2
    again = BuildConfig(reading=PARAGRAPHS)
    build_dataset([text], None, tmp_path / "data", again, append=True)
    assert splits(tmp_path / "data") == (train, held_out)
    more = write(tmp_path / "more", *(document(n) for n in range(50, 58)))
    build_dataset([more], None, tmp_path / "data", again, append=True)
    assert max(map(len, rows(tmp_path / "data"))) == 200
    assert 2 <= len(splits(tmp_path / "data")[1]) <= 7


def test_invalid_appends_are_refused(tmp_path, vocabulary):
    text = write(tmp_path / "text", *(document(n) for n in range(9)))
    with pytest.raises(InputError, match=r"^vocabulary: is missing"):
        build_dataset([text], None, tmp_path / "data")
    build_dataset([text], vocabulary, tmp_path / "data")
    before = read_tree(tmp_path / "data")
    (tmp_path / "empty").write_text("\n\u200d\n")
    with pytest.raises(InputError, match="empty: no text in it"):
        build_dataset([tmp_path / "empty"], None, tmp_path / "data", append=True)
    assert read_tree(tmp_path / "data") == before
    shard = tmp_path / "data" / "documents-00000.arrow"
    shard.write_bytes(shard.read_bytes().replace(b"\x07\x00", b"\x08\x00"))
    with pytest.raises(InputError, match=r"documents-00000\.arrow"):
        build_dataset([text], None, tmp_path / "data", append=True)
    assert not (tmp_path / "data.parts").exists()


def die(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize(
    ("room", "name"),
    [
        *((os, "link"), (DatasetInfo, "write"), (artifacts, "sync_file")),
        *((build_directory, "mark_finished"), (build_directory, "remove_parts")),
    ],
)
@pytest.mark.protected
def test_a_kill_while_finalizing_leaves_the_old_or_the_new(
    tmp_path, vocabulary, monkeypatch, room, name, append
):
    config = BuildConfig(reading=SENTENCES)
    old, new = (write(tmp_path / f"{n}", *(document(m) for m in range(n, n + 9))) for n in (0, 100))

    def build() -> None:
        build_dataset([new], vocabulary, tmp_path / "data", config, append=append)

    if append:
        build_dataset([old], vocabulary, tmp_path / "data", config)
    before = read_tree(tmp_path / "data") if append else None
    with monkeypatch.context() as patch:
        patch.setattr(room, name, die)
        with pytest.raises(KeyboardInterrupt):
            build()
    if name == "remove_parts":  # the data set has taken its place, and the parts are still there
        assert len(rows(tmp_path / "data")) == (18 if append else 9)
    else:
        assert before == (read_tree(tmp_path / "data") if append else None)
        assert append or not (tmp_path / "data").exists()
    build()
    assert len(rows(tmp_path / "data")) == (18 if append else 9)
    assert sorted(os.listdir(tmp_path)) == ["0", "100", "data"]


@pytest.mark.protected
def test_of_two_appends_at_once_one_is_refused(tmp_path, vocabulary, monkeypatch):
    config = BuildConfig(reading=PARAGRAPHS)
    old, one, two = (write(tmp_path / f"{n}", document(n)) for n in range(3))
    build_dataset([old], vocabulary, tmp_path / "data", config)
    write_info = DatasetInfo.write

    def write_later(*arguments: object) -> None:
        monkeypatch.setattr(DatasetInfo, "write", write_info)
        with monkeypatch.context() as patch:
            patch.setattr(build_directory, "remove_parts", lambda output: None)  # it has not come so far
            build_dataset([two], vocabulary, tmp_path / "data", config, append=True)
        write_info(*arguments)

    monkeypatch.setattr(DatasetInfo, "write", write_later)
    with pytest.raises(RunError, match=r"data: another build of it ended .* to append, run this again"):
        build_dataset([one], vocabulary, tmp_path / "data", config, append=True)
    assert len(rows(tmp_path / "data")) == 2
    build_dataset([one], vocabulary, tmp_path / "data", config, append=True)
    assert len(rows(tmp_path / "data")) == 3


@pytest.mark.protected
def test_a_finalized_output_is_not_taken_for_other_inputs(tmp_path, vocabulary, monkeypatch):
    config = BuildConfig(reading=PARAGRAPHS)
    one, two = (write(tmp_path / f"{n}", document(n)) for n in (1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(build_directory, "remove_parts", die)
        with pytest.raises(KeyboardInterrupt):
            build_dataset([one], vocabulary, tmp_path / "data", config)
    before = read_tree(tmp_path / "data")
    with pytest.raises(InputError, match="data: already exists"):
        build_dataset([one, two], vocabulary, tmp_path / "data", config)
    assert read_tree(tmp_path / "data") == before
    assert not (tmp_path / "data.parts").exists()


def test_parts_are_copied_without_hard_links(tmp_path, vocabulary, monkeypatch):
    def refuse(*args: object) -> None:
        raise OSError("no links here")

    text = write(tmp_path / "text", *(document(n) for n in range(9)))
    build_dataset([text], vocabulary, tmp_path / "linked")
    monkeypatch.setattr(os, "link", refuse)
    build_dataset([text], vocabulary, tmp_path / "copied")
    assert read_tree(tmp_path / "linked") == read_tree(tmp_path / "copied")
