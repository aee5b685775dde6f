"""Whole-word masking of text without spaces says what a word is."""

from dataclasses import replace

from cloze.data.build.corpus import build_dataset
from cloze.data.build.parts import BuildConfig
from cloze.data.instances.masking import MaskingConfig
from cloze.progress import Progress
from corpora import save_vocabulary
from runs import pretrain

WORDS = "北京大学的生他来到"


def test_words_of_chinese_are_said_to_be_characters(nano, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"{WORDS[n % 9 :] * 3}\n{WORDS * (n % 5 + 1)}" for n in range(60)))
    save_vocabulary(tmp_path / "vocabulary", WORDS)
    config = BuildConfig(validation_fraction=0.2)
    build_dataset([text], tmp_path / "vocabulary", tmp_path / "data", config)
    masking = MaskingConfig(whole_word=True)
    pretrain(
        replace(nano, data=str(tmp_path / "data"), masking=masking, steps=2),
        tmp_path / "run",
        progress=Progress(),
    )
    told = capsys.readouterr().err
    said = "of the tokens are of scripts without spaces, where a word is one Chinese character"
    assert said in told
    assert (tmp_path / "run" / "latest").exists()
