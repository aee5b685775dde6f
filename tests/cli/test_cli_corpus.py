"""`cloze corpus` over several commands: appending, warnings, and the cache of remote output."""

import json
import shlex

import pytest
from samples import NANO

from cloze.data.dataset import Dataset
from helpers import read_all_files


@pytest.mark.slow
def test_the_vocabulary_may_be_that_of_a_run(samples, tmp_path, cloze):
    for name in ("vocab", "run"):
        vocab = getattr(samples, name)
        cloze(f"corpus {samples.text} --vocabulary {vocab} --format paragraphs -o {tmp_path}/{name}")
    vocabularies = [read_all_files(tmp_path / name)["vocab.txt"] for name in ("vocab", "run")]
    assert vocabularies[0] == vocabularies[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("One line of text. And another.\n", "warning: no held-out documents: 1 in total"),
        ("One line of text.\n\nAnother of them.\n", "warning: fewer than 4 documents have two sentences"),
    ],
)
def test_data_sets_that_train_badly_are_warned_of(samples, tmp_path, cloze, text, warning):
    (tmp_path / "text").write_text(text, "utf-8")
    assert warning in cloze(f"corpus {tmp_path}/text --vocabulary {samples.vocab} -o {tmp_path}/data").err


@pytest.mark.slow
def test_one_text_file_is_enough_to_pretrain(tmp_path, cloze):
    book, vocab, data, run = (tmp_path / name for name in ("book.txt", "vocab", "data", "run"))
    book.write_text(
        "".join(f"The {n}th morning was fine. She went out again.\n" for n in range(300)), "utf-8"
    )
    cloze(f"vocab {book} -o {vocab} --size 90 --workers 1")
    printed = cloze(f"corpus {book} --vocabulary {vocab} -o {data} --workers 1")
    assert "one document: its end is held out, 11% of the tokens" in printed.err
    assert "warning" not in printed.err
    printed = cloze(f"pretrain -d {data} -o {run} --steps 2 --json {shlex.join(NANO)}")
    assert {"masked_lm_loss", "next_sentence_loss"} <= set(json.loads(printed.out))


@pytest.mark.slow
def test_append_adds_only_new_documents(samples, tmp_path, cloze):
    more = "It was a dark and stormy night. The rain fell in torrents.\nThe end of it was near.\n"
    (tmp_path / "both").write_text(f"{samples.text.read_text()}\n\n{more}")
    data = tmp_path / "data"
    printed = cloze(f"corpus {samples.text} --vocabulary {samples.vocab} -o {data} --format paragraphs")
    assert "warning" not in printed.err
    before = Dataset.open(data)
    printed = cloze(f"corpus {tmp_path}/both -o {data} --append --format paragraphs --workers 1 --json")
    counts = printed.json["documents"], printed.json["duplicate_documents"]["dropped"]
    assert counts == (1, before.info.documents)
    assert f"dropped {before.info.documents:,} duplicate documents" in printed.err
    after = Dataset.open(data)
    assert after.info.documents == before.info.documents + 1
    assert after.info.held_out_below == before.info.held_out_below
