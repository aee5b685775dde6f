"""Words added to a vocabulary, by library and command line, and inspection of vocabularies."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

import cloze
from cloze import artifacts
from cloze.cli import main
from cloze.errors import InputError
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.vocabulary import add_tokens
from cloze.tokenization.wordpiece import WordPieceTokenizer

TOKENS = [
    "[PAD]", "[unused0]", *SPECIAL_TOKENS[1:], "[unused1]", "the", "gl", "##y", "##pt", "##o", "##s", "sat", "café",
]  # fmt: skip


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    (tmp_path / "vocab").mkdir()
    WordPieceTokenizer.from_tokens(TOKENS, model_max_length=77).save(tmp_path / "vocab")
    return tmp_path / "vocab"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    text = "The glyptos sat, the Glyptos sat so so, so sat the zebra and the zebra. "
    (tmp_path / "text.txt").write_text(text * 2)
    return tmp_path / "text.txt"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_words_of_a_file_are_added(tmp_path, vocabulary):
    words = write(tmp_path / "words", "Glyptos\nsat\n\n  Éland\nglyptos\nzebra\n")
    extension = cloze.extend_vocabulary(vocabulary, output=tmp_path / "new", words=words)
    assert [(word.word, word.id, word.before, word.count) for word in extension.added] == [
        ("glyptos", 1, ("gl", "##y", "##pt", "##o", "##s"), None),
        ("eland", TOKENS.index("[unused1]"), ("[UNK]",), None),
        ("zebra", len(TOKENS), ("[UNK]",), None),
    ]
    assert extension.known == ("sat",)
    counts = (extension.tokens_before, extension.tokens, extension.appended)
    assert counts == (len(TOKENS), len(TOKENS) + 1, 1)
    artifacts.verify(tmp_path / "new", kind="vocabulary")
    old, new = load_tokenizer(vocabulary), load_tokenizer(tmp_path / "new")
    assert new.model_max_length == 77
    changed = {number for number, token in enumerate(old.tokens) if new.tokens[number] != token}
    assert changed == {1, TOKENS.index("[unused1]")}
    sentence = "The glyptos sat by a zebra"
    theirs = AutoTokenizer.from_pretrained(str(tmp_path / "new"))
    assert theirs(sentence)["input_ids"] == new.encode(sentence).input_ids
    assert new.encode(sentence).tokens[1:4] == ["the", "glyptos", "sat"]


def test_frequent_words_of_a_text_are_added(tmp_path, vocabulary, text):
    extension = cloze.extend_vocabulary(vocabulary, output=tmp_path / "new", inputs=[text], number=4)
    added = [(word.word, word.count) for word in extension.added]
    assert added == [("so", 6), (",", 4), ("glyptos", 4), ("zebra", 4)]
    assert extension.tokens_per_word_before is not None
    assert extension.tokens_per_word == 1
    assert extension.tokens_per_word_before > extension.tokens_per_word


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": "glyptos", "number": 2}, "one of `words` and `number` is needed"),
        ({"words": f"a\n\n{'x' * 51}"}, r"words:3: 'x+' is not one word of at most 50"),
        ({"words": "the\nsat"}, "words: all of the words are tokens already"),
        ({"words": "\n"}, "words: no word in it"),
        ({"words": ["ab", "a\nb"]}, r"words\[1\]: 'a\\nb' is not one word"),
        ({"number": 0}, "number: 0 is less than 1"),
    ],
)
def test_invalid_additions_are_refused(tmp_path, vocabulary, arguments, message):
    if isinstance(words := arguments.get("words"), str):
        arguments = {**arguments, "words": write(tmp_path / "words", words)}
    with pytest.raises(InputError, match=message):
        cloze.extend_vocabulary(vocabulary, output=tmp_path / "new", **arguments)
    assert not (tmp_path / "new").exists()


def test_added_tokens_keep_their_ids():
    tokens = ["[unused98]", "[unused99]", *TOKENS]
    assert add_tokens(tokens, ["new"], keep=("[unused98]",))[:2] == ["[unused98]", "new"]


def test_tokens_are_not_added_twice():
    with pytest.raises(InputError, match="'the' is in line"):
        add_tokens(TOKENS, ["the"])


def test_cli_extends_and_inspects(tmp_path, vocabulary, text, capsys):
    words, new = write(tmp_path / "words", "glyptos\nzebra\nthe\n"), tmp_path / "new"
    command = ["vocab", "extend", str(vocabulary), str(text), "-o", str(new), "--words", str(words)]
    assert main([*command, "--workers", "1"]) == 0
    printed = capsys.readouterr().out
    assert f"wrote {new}: 2 words added, 2 of them in [unused] tokens; {len(TOKENS)} tokens" in printed
    assert "tokens already: the" in printed
    assert "glyptos" in printed
    assert "4 times  was gl ##y ##pt ##o ##s" in printed
    assert main(command) == 2
    assert "already exists" in capsys.readouterr().err
    look = ["vocab", "inspect", str(vocabulary), str(text), "--workers", "1", "--text", "Glyptos!", "--quiet"]
    assert main([*look, "--beside", str(new)]) == 0
    printed = capsys.readouterr().out
    assert "tokens per word" in printed
    assert "split most: glyptos (4: gl ##y ##pt ##o ##s)" in printed
    assert "  gl ##y ##pt ##o ##s [UNK]\n" in printed
    assert printed.endswith("  glyptos [UNK]\n")
    assert main([*look, "--beside", str(new), "--json"]) == 0
    before, after = json.loads(capsys.readouterr().out)
    assert before["text"]["tokens_per_word"] > after["text"]["tokens_per_word"]
    assert after["tokens"] == [["glyptos", "[UNK]"]]
    assert main(["vocab", "inspect", str(new), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["vocabulary"]["tokens"] == len(TOKENS)
