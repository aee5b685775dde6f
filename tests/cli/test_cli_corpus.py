"""`cloze corpus`: warnings, and one text file to pre-train on."""

import json
import shlex

import pytest
from samples import NANO


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
