"""The tokenizer, its files, and the same results in other tools."""

import json
import pickle

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from cloze.cli import main
from cloze.errors import InputError
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from helpers import edit_json
from tiny_models import SPECIAL

TOKENS = [*SPECIAL, "cafe", "Café", "au", "##x", "la", "##it", "!", "中"]
TEXTS = st.text(max_size=30) | st.lists(
    st.sampled_from([*" \n\x00\x85\u0301\u3000\ufffd中ﬃİΣ가!", "Café", "[MASK]", "the ", "\ud800"]),
    max_size=20,
).map("".join)
VALID_TEXTS = TEXTS.filter(lambda text: "\ud800" not in text)  # tokenizers refuses lone surrogates


def test_offsets_point_into_the_original_text():
    text = "  Café\x00 au\tlait CAFÉ中!"
    encoding = WordPieceTokenizer.from_tokens(TOKENS).encode(text)
    assert encoding.tokens == ["[CLS]", "cafe", "au", "la", "##it", "cafe", "中", "!", "[SEP]"]
    spans = [text[start:end] for start, end in encoding.offsets]
    assert spans == ["", "Café", "au", "la", "it", "CAFÉ", "中", "!", ""]


@pytest.mark.protected
@pytest.mark.parametrize("budget", range(12))
def test_truncation_equals_googles_loop(budget):
    tokenizer = WordPieceTokenizer.from_tokens(TOKENS)
    for first in range(7):
        for second in range(7):
            kept = [first, second]
            while sum(kept) > budget:
                kept[0 if kept[0] > kept[1] else 1] -= 1
            encoding = tokenizer.encode("la " * first, "au " * second, max_length=budget + 3)
            assert [encoding.tokens.count("la"), encoding.tokens.count("au")] == kept


def test_ids_of_no_token_are_refused():
    for number in (-1, len(TOKENS)):
        with pytest.raises(InputError, match=r"^ids\[1\]: "):
            WordPieceTokenizer.from_tokens(TOKENS).decode([5, number])


def test_lone_surrogates_are_skipped():
    encoding = WordPieceTokenizer.from_tokens(TOKENS).encode("\ud83dla\ude00")
    assert encoding.tokens[1:-1] == ["la"]
    assert encoding.offsets[1] == (1, 3)


@pytest.mark.slow
@pytest.mark.protected
@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=VALID_TEXTS, pair=st.none() | VALID_TEXTS.filter(len))
def test_saved_directory_gives_the_same_ids_in_other_tools(loaded_by_tools, text, pair):
    ours, transformers_tokenizer, library = loaded_by_tools
    encoding = ours.encode(text, pair)
    assert type(transformers_tokenizer).__name__ == "BertTokenizer"
    assert transformers_tokenizer.model_max_length == ours.model_max_length
    names = ("pad", "unk", "cls", "sep", "mask")
    special_ids = {f"{name}_token_id": getattr(ours, f"{name}_id") for name in names}
    assert {name: getattr(transformers_tokenizer, name) for name in special_ids} == special_ids
    theirs = transformers_tokenizer(text, pair, return_offsets_mapping=True)
    assert encoding.input_ids == theirs["input_ids"] == library.encode(text, pair).ids
    assert encoding.token_type_ids == theirs["token_type_ids"]
    assert encoding.offsets == theirs["offset_mapping"]


@pytest.fixture(scope="module", params=["uncased", "cased", "accents kept", "no Chinese"])
def loaded_by_tools(request, uncased_vocabulary, tmp_path_factory):
    """The tokenizer loaded by cloze, transformers and tokenizers from the same files."""
    directory = tmp_path_factory.mktemp("saved")
    settings_of = {
        "uncased": {},
        "cased": {"lowercase": False},
        "accents kept": {"strip_accents": False},
        "no Chinese": {"tokenize_chinese_chars": False, "model_max_length": 128},
    }
    WordPieceTokenizer.from_tokens(uncased_vocabulary, **settings_of[request.param]).save(directory)
    return (
        load_tokenizer(directory),
        AutoTokenizer.from_pretrained(directory),
        tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json")),
    )


def test_round_trip_through_files_and_pickle(tmp_path):
    for tokenizer in (
        WordPieceTokenizer.from_tokens(TOKENS),
        WordPieceTokenizer.from_tokens(TOKENS, lowercase=False, strip_accents=True, model_max_length=64),
        WordPieceTokenizer((*TOKENS, "[E1]"), added_tokens=("[E1]",), max_input_chars_per_word=30),
    ):
        written = []
        for _ in range(2):
            tokenizer.save(tmp_path)
            written.append([path.read_bytes() for path in sorted(tmp_path.iterdir())])
        assert written[0] == written[1]
        tokenizer.ids(["la"])
        assert load_tokenizer(tmp_path) == tokenizer
        assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer
    assert tokenizer.encode("la [E1]").tokens == ["[CLS]", "la", "[E1]", "[SEP]"]
    (tmp_path / "vocab.txt").unlink()
    (tmp_path / "tokenizer_config.json").unlink()
    alone = load_tokenizer(tmp_path)
    assert alone == tokenizer


def test_case_is_inferred_from_the_vocabulary(tmp_path):
    file = tmp_path / "vocab.txt"
    file.write_text("\n".join([*SPECIAL, "[unused0]", "<S>", "a"]) + "\n")
    assert load_tokenizer(tmp_path).lowercase
    file.write_text("\n".join([*SPECIAL, "A", "a"]) + "\n")
    assert not load_tokenizer(tmp_path).lowercase
    config = '{"do_lower_case": true, "model_max_length": 1000000000000}'
    (tmp_path / "tokenizer_config.json").write_text(config)
    assert load_tokenizer(tmp_path).lowercase
    assert load_tokenizer(tmp_path).model_max_length == 512


@pytest.mark.protected
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("model", "type"), "BPE", "damaged"),
        (("normalizer", "clean_text"), False, "clean_text is False"),
        (("model", "vocab", "la"), 99, "gaps or repeat"),
        (("model", "vocab", TOKENS[-1]), 5, "gaps or repeat"),
        (("added_tokens", 0, "special"), False, r"\[PAD\] is not marked as special"),
        *((("model", "vocab"), value, "damaged") for value in ([1], None)),
        *((("added_tokens",), [entry], "damaged") for entry in ({}, {"id": 1}, {"content": "zz"}, 3)),
        (("added_tokens",), [{"content": "zz", "special": False, "id": "x"}], "damaged"),
        (("model", "max_input_chars_per_word"), 10**7, "not in 1"),
    ],
)
def test_damaged_tokenizers_are_refused(tmp_path, path, value, message):
    WordPieceTokenizer.from_tokens(TOKENS).save(tmp_path)
    file = tmp_path / "tokenizer.json"
    edit_json(file, *path, to=value)
    with pytest.raises(InputError, match=message) as error:
        load_tokenizer(tmp_path)
    assert str(file) in str(error.value)


@pytest.mark.protected
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_damaged_json_is_an_error(tmp_path, name, content):
    WordPieceTokenizer.from_tokens(TOKENS).save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        load_tokenizer(tmp_path)


PHRASE = "ประเทศไทยมีประชากรมากกว่าหกสิบล้านคน"
THAI = PHRASE * 5


@pytest.mark.protected
@pytest.mark.parametrize(("limit", "is_unknown"), [(100, True), (len(THAI) - 1, True), (1000, False)])
def test_limit_of_a_new_vocabulary(tmp_path, limit, is_unknown):
    assert len(THAI) > 150
    (tmp_path / "text.txt").write_text(f"{PHRASE}\n" * 20, "utf-8")
    command = ["vocab", str(tmp_path / "text.txt"), "-o", str(tmp_path / "vocab"), "--size", "52"]
    assert main([*command, "--cased", "--max-word-chars", str(limit), "--workers", "1", "--quiet"]) == 0
    tokenizer = load_tokenizer(tmp_path / "vocab")
    assert tokenizer.max_input_chars_per_word == limit
    tokens = tokenizer.encode(THAI).tokens
    assert (tokens == ["[CLS]", "[UNK]", "[SEP]"]) == is_unknown
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "vocab/tokenizer.json"))
    assert library.encode(THAI).tokens == tokens
    assert tokenizer.ids([THAI])[0].tolist() == tokenizer.encode(THAI).input_ids[1:-1]
    config = json.loads((tmp_path / "vocab/tokenizer_config.json").read_text())
    assert config.get("max_input_chars_per_word", 100) == limit


def test_limit_beside_a_vocabulary_alone(tmp_path):
    WordPieceTokenizer.from_tokens([*SPECIAL, "a", "##a"], max_input_chars_per_word=7).save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("a" * 7).tokens[1:-1] == ["a", *["##a"] * 6]
    assert tokenizer.encode("a" * 8).tokens[1:-1] == ["[UNK]"]
