"""Search in text files: passages and their lines, and vectors that are kept while documents and model stay the same."""

import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import cloze
from cloze.cli import main
from cloze.data.reading.files import read_lines
from cloze.errors import DataWarning, InputError
from cloze.inference.embedder import Embedder
from cloze.inference.search import FOLDER, Hit, PassageIndex
from cloze.tasks.arrays import normalize
from helpers import task_of
from tiny_models import tiny_config, write_checkpoint, write_finetuned

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef.", "\u1100", "##\u1161")


def write_model(path: Path, seed: int = 2, *, truncate_dim: int | None = None, **prompts: str) -> Path:
    encoder = cloze.BertModel(tiny_config(TOKENS), generator=torch.Generator().manual_seed(seed))
    plain = write_checkpoint(path.with_name("plain"), encoder, TOKENS)
    Embedder.load(plain, device="cpu", pooling="mean", max_seq_length=10).save(path)
    if prompts:
        (path / "manifest.json").unlink()
        settings = {"prompts": prompts, "truncate_dim": truncate_dim}
        (path / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were embedded."""
    texts: list[str] = []
    embed = Embedder.embed

    def record(self: Embedder, its: list[str]) -> Any:
        texts.extend(its)
        return embed(self, its)

    monkeypatch.setattr(Embedder, "embed", record)
    return texts


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    (folder / "more").mkdir(parents=True)
    (folder / "a.txt").write_text("a b c.\n\nd e f.\n")
    (folder / "more/b.md").write_text("\n\nc c c\nc\n\nb b b\n")
    return folder


def open_index(model: Path, documents: Path, **options: Any) -> PassageIndex:
    return PassageIndex.open(Embedder.load(model, device="cpu"), documents, **options)


def passages(index: PassageIndex) -> list[tuple[str, int, str]]:
    return [(Path(file).name, line, text) for file, line, text in index.passages]


ALL = [("a.txt", 1, "a b c."), ("a.txt", 3, "d e f."), ("b.md", 3, "c c c\nc"), ("b.md", 6, "b b b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b\nc\n\nd", [(1, "a b\nc"), (4, "d")]),
        (
            "Aa bb cc dd. Ee ff aa bb. Cc dd ee ff.",
            [(1, "Aa bb cc dd."), (1, "Ee ff aa bb."), (1, "Cc dd ee ff.")],
        ),
        ("a b c d e\na b c d e\na b c", [(1, "a b c d e"), (2, "a b c d e\na b c")]),
        ("a b c d e f a b c d e f", [(1, "a b c d e f a b"), (1, "c d e f")]),
        ("abcdefabcdef " * 2, [(1, "abcdefabcdef abcdefabcdef")]),  # a word is one token
        ("a b\r\n\r\n\ufeffc\r\n", [(1, "a b"), (3, "c")]),
        ("\n \n\t\n  d \n", [(4, "d")]),
        ("# a\n\n## b\nc d\n\ne\n\n# f\n\n", [(1, "# a\n\n## b\nc d"), (6, "e"), (8, "# f")]),
        ("b\n\n\u200b\n\nc", [(1, "b"), (5, "c")]),  # a character without a token
        ("a b c d e f a \uac00", [(1, "a b c d e f a"), (1, "\uac00")]),  # a syllable of two tokens
        ("# a\n\nBb cc dd. Ee ff aa bb.", [(1, "# a\n\nBb cc dd."), (3, "Ee ff aa bb.")]),
    ],
)
def test_passages_are_paragraphs_of_as_many_tokens_as_the_model_reads(model, tmp_path, text, expected):
    (tmp_path / "text.txt").write_bytes(text.encode())
    found = passages(open_index(model, tmp_path / "text.txt"))
    assert found == [("text.txt", line, passage) for line, passage in expected]


def test_hits_are_the_nearest_passages_in_shell_and_python(model, documents, capsys):
    embedder = Embedder.load(model, device="cpu", normalize=True)
    cosines = embedder([text for *_, text in ALL]) @ embedder("c c")
    best = np.argsort(-cosines, kind="stable")[:3]
    hits = cloze.search(documents, "c c", model=model, top_k=3, device="cpu")
    assert [(Path(hit.file).name, hit.line, hit.text) for hit in hits] == [ALL[i] for i in best]
    np.testing.assert_allclose([hit.score for hit in hits], cosines[best], atol=1e-5)
    assert main(["search", str(documents), "c c", "-m", str(model), "-k", "3", "--json"]) == 0
    assert [Hit(**row) for row in json.loads(capsys.readouterr().out)] == pytest.approx(hits)
    assert main(["search", str(documents), "c c", "-m", str(model), "-k", "1"]) == 0
    assert f"{hits[0].file}:{hits[0].line}\n        {hits[0].text.splitlines()[0]}" in capsys.readouterr().out


def test_passages_are_wrapped_at_the_width_of_the_terminal(model, tmp_path, capsys, monkeypatch):
    (tmp_path / "a.txt").write_text("abcdefabcdef " * 8)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["search", str(tmp_path / "a.txt"), "a", "-m", str(model), "-k", "1"]) == 0
    place, *lines = capsys.readouterr().out.splitlines()
    assert place.endswith("a.txt:1")
    assert lines == [" " * 8 + " ".join(["abcdefabcdef"] * count) for count in (4, 4)]


def test_only_new_and_changed_documents_are_embedded(model, documents, embedded):
    assert passages(open_index(model, documents)) == ALL
    embedded.clear()
    assert passages(open_index(model, documents)) == ALL
    (documents / "a.txt").rename(documents / "c.txt")
    shutil.copy(documents / "c.txt", documents / "d.txt")
    index = open_index(model, documents)
    assert [name for name, *_ in passages(index)] == ["c.txt", "c.txt", "d.txt", "d.txt", "b.md", "b.md"]
    assert not embedded
    (documents / "c.txt").write_text("f")
    (documents / "d.txt").unlink()
    assert passages(open_index(model, documents)) == [("c.txt", 1, "f"), *ALL[2:]]
    assert embedded == ["f"]


def test_vectors_of_removed_documents_and_of_all_but_four_models_are_deleted(
    model, documents, tmp_path, embedded
):
    others = [write_model(tmp_path / f"{seed}/model", seed) for seed in (3, 4, 5, 6)]
    for path in (model, *others[:3], model, others[3]):
        open_index(path, documents)
        assert {len([*folder.iterdir()]) for folder in documents.glob(f"{FOLDER}/*")} == {2}
    embedded.clear()
    (documents / FOLDER / ".DS_Store").touch()
    for path in (model, *others[1:]):
        open_index(path, documents)
    assert not embedded
    open_index(others[0], documents / "more/b.md")  # the vectors of which are in another folder
    assert len([*documents.glob(f"{FOLDER}/*/*")]) == 8
    (documents / "a.txt").unlink()
    open_index(model, documents)
    assert len([*documents.glob(f"{FOLDER}/*/*")]) == 4


@pytest.mark.parametrize("change", ["weights", "prompt", "encoding"])
def test_vectors_of_another_model_or_text_are_not_used(model, documents, embedded, tmp_path, change):
    first = open_index(model, documents)
    embedded.clear()
    other = {"weights": {"seed": 3}, "prompt": {"document": "f f"}}.get(change)
    path = model if other is None else write_model(tmp_path / "other", **other)
    second = open_index(path, documents, encoding="latin-1" if change == "encoding" else None)
    assert embedded == [text for *_, text in ALL]
    assert np.allclose(first.vectors, second.vectors, atol=1e-3) == (change == "encoding")
    embedded.clear()
    np.testing.assert_array_equal(open_index(model, documents).vectors, first.vectors)
    assert not embedded


def test_a_damaged_file_is_written_again_and_an_interrupted_one_leaves_nothing(
    model, documents, embedded, monkeypatch
):
    expected = open_index(model, documents).vectors
    for file, at in zip(documents.glob(f"{FOLDER}/*/*"), (40, -1), strict=True):  # of a text, and of a vector
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(content)
    np.testing.assert_array_equal(open_index(model, documents).vectors, expected)
    (documents / "e.txt").write_text("a")
    monkeypatch.setattr("pathlib.Path.write_bytes", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        open_index(model, documents)
    monkeypatch.undo()
    assert len([*documents.glob(f"{FOLDER}/*/*"), *documents.glob(f"{FOLDER}/*/.*")]) == 2
    assert len(open_index(model, documents).passages) == 5


def test_a_folder_that_cannot_be_written_is_searched_with_a_warning(model, documents, embedded):
    (documents / FOLDER).touch()
    for _ in range(2):
        embedded.clear()
        told = r"cannot write: Not a directory\. The next search embeds 2 files again"
        with pytest.warns(DataWarning, match=rf"{FOLDER}: {told}"):
            assert passages(open_index(model, documents)) == ALL
        assert embedded == [text for *_, text in ALL]


def test_what_is_not_text_is_left_out_of_a_folder_and_refused_alone(model, documents, tmp_path):
    (documents / "a.pdf").write_bytes(b"%PDF-1.7")
    (documents / "empty.txt").write_text("\n")
    (documents / "latin.txt").write_bytes(b"\xe9t\xe9")
    with pytest.warns(DataWarning, match=r"2 files left out\. .*a\.pdf: a PDF, not text"):
        assert passages(open_index(model, documents)) == passages(open_index(model, documents)) == ALL
    (documents / "gone.txt").symlink_to(tmp_path / "nothing")
    write_model(documents / "model")
    os.mkfifo(documents / "pipe")
    with pytest.warns(DataWarning, match=r"6 files left out\. .*gone\.txt: cannot be read"):
        assert passages(open_index(model, documents)) == ALL
    with pytest.raises(InputError, match="a PDF, not text"):
        open_index(model, documents / "a.pdf")
    (tmp_path / "empty.txt").write_text("\n")
    for path, what in [
        (tmp_path / "empty.txt", "contains no text"),
        (tmp_path / "no", "no such file or folder"),
    ]:
        with pytest.raises(InputError, match=what):
            open_index(model, path)


def test_a_ranker_orders_the_nearest_passages(model, documents, tmp_path):
    ranker = cloze.TextRanker.load(
        write_finetuned(tmp_path / "ranker", task_of("ranking"), TOKENS), device="cpu"
    )
    hits = open_index(model, documents).search("a b", top_k=2, ranker=ranker)
    ranked = ranker("a b", [text for *_, text in ALL], top_k=2)
    assert [(hit.text, hit.score) for hit in hits] == [(passage.text, passage.score) for passage in ranked]


@pytest.mark.parametrize("width", [None, 3])
def test_questions_and_documents_have_prompts_of_their_own(tmp_path, documents, width):
    model = write_model(tmp_path / "model", truncate_dim=width, query="a a a ", passage="f f f ")
    embedder = Embedder.load(model, device="cpu")
    [hit] = open_index(model, documents).search("b", top_k=1)
    vectors = normalize(embedder([f"f f f {text}" for *_, text in ALL]))
    assert vectors.shape[1] == (width or embedder.model.config.hidden_size)
    assert hit.score == pytest.approx((vectors @ normalize(embedder("a a a b"))).max(), abs=1e-5)


def test_a_prompt_without_room_for_text_and_a_blank_question_are_refused(tmp_path, documents, model):
    with pytest.raises(InputError, match="prompt: fills max_seq_length"):
        open_index(write_model(tmp_path / "model", passage="a " * 8), documents)
    index = open_index(model, documents)
    for question, top_k, what in [(" ", 1, "the text is empty"), ("a", -1, "-1 is less than 1")]:
        with pytest.raises(InputError, match=what):
            index.search(question, top_k=top_k)
    with pytest.warns(DataWarning, match="words that the vocabulary does not know, such as 'xyz'"):
        index.search("a xyz")


def test_vectors_of_a_document_that_changes_while_it_is_read_are_not_kept(model, documents, monkeypatch):
    old = (documents / "a.txt").read_text()

    def change(file: str, *options: Any) -> Any:
        (documents / "a.txt").write_text("f f")
        return read_lines(file, *options)

    monkeypatch.setattr("cloze.inference.search.read_lines", change)
    with pytest.warns(DataWarning, match=r"1 file left out\. .*a\.txt: changed while it was read"):
        assert passages(open_index(model, documents)) == ALL[2:]
    monkeypatch.undo()
    (documents / "a.txt").write_text(old)
    assert passages(open_index(model, documents)) == ALL
