"""Tokenizers of others: the model gets the ids and segments that transformers gives it, or the files are refused."""

import json
import math
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from test_library_tokenizer import ROLES as LIBRARY_ROLES
from test_library_tokenizer import byte_level
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

import cloze
from cloze.errors import InputError
from cloze.tokenization.library_tokenizer import LibraryTokenizer
from cloze.tokenization.loading import load_tokenizer, load_wordpiece
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.wordpiece import WordPieceTokenizer
from encoder_families import FAMILIES
from helpers import edit_json

TOKENS = [*SPECIAL_TOKENS, "a", "A", "##b", "é", "e", "中", "文", "中文", ".", "zz"]
TEXTS = ["A é 中文 ab [MASK].", "", "zz\u200b e", "a" * 101]
PAIR = ("ab É", "中文 [SEP] zz.")
ROLES = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
Json = dict[str, Any]


def special(token: str, segment: int = 0) -> Json:
    return {"SpecialToken": {"id": token, "type_id": segment}}


def text(name: str, segment: int = 0) -> Json:
    return {"Sequence": {"id": name, "type_id": segment}}


def template(single: list[Json], after: list[Json]) -> Json:
    ids = {t: {"id": t, "ids": [TOKENS.index(t)], "tokens": [t]} for t in ("[CLS]", "[SEP]")}
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, *after], "special_tokens": ids}


FIRST = [special("[CLS]"), text("A"), special("[SEP]")]
TEMPLATES: Mapping[str, Json | None] = {
    "BERT's": template(FIRST, [text("B", 1), special("[SEP]", 1)]),
    "BertProcessing": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
    "RobertaProcessing": {
        **{"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        **{"trim_offsets": True, "add_prefix_space": False},
    },
    "none": None,
    "no [SEP]": template(FIRST[:2], [text("B", 1)]),
    "one segment": template(FIRST, [text("B"), special("[SEP]")]),
    "two [SEP]": template(FIRST, [special("[SEP]"), text("B", 1), special("[SEP]", 1)]),
    "three segments": template(FIRST, [text("B", 2), special("[SEP]", 2)]),
    "second text first": template([special("[CLS]"), text("A"), special("[SEP]")], [])
    | {"pair": [special("[CLS]"), text("B"), special("[SEP]"), text("A", 1), special("[SEP]", 1)]},
    "in a sequence": {
        "type": "Sequence",
        "processors": [template(FIRST, [text("B", 1), special("[SEP]", 1)])],
    },
}
INPUTS: Mapping[str, Json] = {
    "unsaid": {},
    "all": {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]},
    "no segments": {"model_input_names": ["input_ids", "attention_mask"]},
}
CLASSES: Mapping[str, Json] = {
    "none": {},
    "BertTokenizerFast": {"tokenizer_class": "BertTokenizerFast"},
    "DistilBertTokenizer": {"tokenizer_class": "DistilBertTokenizer"},
    "PreTrainedTokenizerFast": {"tokenizer_class": "PreTrainedTokenizerFast"},
}
SETTINGS: Mapping[str, Json] = {
    "none": {},
    "cased": {"do_lower_case": False},
    "uncased": {"do_lower_case": True},
    "accents": {"do_lower_case": True, "strip_accents": False},
    "no accents": {"do_lower_case": False, "strip_accents": True},
    "Chinese": {"do_lower_case": False, "tokenize_chinese_chars": False},
    "extra token": {"do_lower_case": True, "additional_special_tokens": ["zz"]},
    "another mask": {"do_lower_case": True, **ROLES, "mask_token": "zz"},
    "another [SEP]": {"do_lower_case": True, **ROLES, "sep_token": "zz"},
    "another end": {"do_lower_case": True, "eos_token": "e"},
    "left": {"do_lower_case": True, "truncation_side": "left"},
    "special as text": {"do_lower_case": True, "split_special_tokens": True},
}


def normalizer(**settings: bool | None) -> Callable[[Json], None]:
    return lambda library: library["normalizer"].update(settings)


def without_added_tokens(library: Json) -> None:
    library["added_tokens"] = []


LIBRARIES: Mapping[str, Callable[[Json], Any]] = {
    "uncased": lambda library: None,
    "cased": normalizer(lowercase=False),
    "cased without accents": normalizer(lowercase=False, strip_accents=True),
    "uncased with accents": normalizer(strip_accents=False),
    "Chinese words": normalizer(handle_chinese_chars=False),
    "unclean": normalizer(clean_text=False),
    "long words": lambda library: library["model"].update(max_input_chars_per_word=200),
    "no added tokens": without_added_tokens,
    "truncated and padded": lambda library: library.update(
        truncation={"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    ),
}


def write(directory: Path, change: Callable[[Json], Any], post_processor: Json | None, config: Json) -> Path:
    WordPieceTokenizer.from_tokens(TOKENS).save(directory)
    library = json.loads((directory / "tokenizer.json").read_text())
    change(library)
    library["post_processor"] = post_processor
    (directory / "tokenizer.json").write_text(json.dumps(library))
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": len(TOKENS)}))
    return directory


def compare(directory: Path, *inputs: tuple[str, ...]) -> str:
    """Compare a tokenizer, and what cloze saves of it, with that of transformers; return "" or the error.

    Segments that transformers does not give are 0 unless there are inputs of a family, which may ignore them.
    """
    theirs = AutoTokenizer.from_pretrained(directory)
    try:
        ours = load_tokenizer(directory)
    except InputError as error:
        return str(error)
    again = directory / "again"
    again.mkdir(exist_ok=True)
    ours.save(again)
    shutil.copy(directory / "config.json", again)
    saved, loaded = AutoTokenizer.from_pretrained(again), load_tokenizer(again)
    assert loaded == ours
    for texts in inputs or (*((one,) for one in TEXTS), PAIR):
        expected = theirs(*texts)
        encoding = ours.encode(*texts)
        assert encoding.input_ids == expected["input_ids"], texts
        unsaid = encoding.token_type_ids if inputs else [0] * len(encoding)
        segments = expected.get("token_type_ids", unsaid)
        assert encoding.token_type_ids == segments, texts
        assert saved(*texts)["input_ids"] == encoding.input_ids, texts
        assert saved(*texts).get("token_type_ids", unsaid) == segments, texts
        (ids, _) = ours.ids(texts[:1])
        if "[" not in texts[0] and "zz" not in texts[0]:
            assert ids.tolist() == ours.encode(texts[0]).input_ids[1:-1]
    return ""


@pytest.mark.protected
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(("inputs", "tokenizer_class"), [*product(INPUTS, CLASSES)])
def test_templates_and_segments(tmp_path, name, inputs, tokenizer_class):
    config = {"do_lower_case": True, **ROLES, **INPUTS[inputs], **CLASSES[tokenizer_class]}
    error = compare(write(tmp_path, LIBRARIES["uncased"], TEMPLATES[name], config))
    fits = name in ("BERT's", "BertProcessing", "in a sequence")
    if tokenizer_class == "PreTrainedTokenizerFast":
        fits |= name in ("one segment", "two [SEP]", "RobertaProcessing")
        fits |= name == "three segments" and inputs != "all"
    elif inputs == "no segments" or (tokenizer_class == "DistilBertTokenizer" and inputs == "unsaid"):
        fits |= name == "one segment"
    assert fits == (not error)
    assert fits or ("tokenizer.json: " in error and "post_processor" in error)


PAIRS = {*product(LIBRARIES, ["none", "cased", "uncased"]), *product(["uncased", "cased"], SETTINGS)}


@pytest.mark.parametrize(("library", "settings"), sorted(PAIRS))
@pytest.mark.parametrize("tokenizer_class", CLASSES)
def test_settings_of_both_files(tmp_path, library, settings, tokenizer_class):
    config = {**SETTINGS[settings], **CLASSES[tokenizer_class]}
    error = compare(write(tmp_path, LIBRARIES[library], TEMPLATES["BERT's"], config))
    if error:
        fields = ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "clean_text", "split_special")
        assert any(field in error for field in (*fields, "max_input_chars_per_word", "truncation_side"))
        assert tokenizer_class != "PreTrainedTokenizerFast" or settings in ("left", "special as text")


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["BertTokenizer", "DistilBertTokenizerFast"])
def test_a_vocabulary_without_tokenizer_json(tmp_path, settings, name):
    config = {**SETTINGS[settings], "tokenizer_class": name}
    directory = write(tmp_path, LIBRARIES["uncased"], TEMPLATES["BERT's"], config)
    (directory / "tokenizer.json").unlink()
    error = compare(directory)
    said = {"none": "no do_lower_case", "another mask": "mask_token", "another [SEP]": "sep_token"}
    said |= {"left": "truncation_side", "special as text": "split_special_tokens"}
    assert said.get(settings, "") in error
    assert bool(error) == (settings in said)


@pytest.mark.parametrize("name", ["BertJapaneseTokenizer", "RobertaTokenizer", "NoSuchTokenizer"])
@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_other_classes_are_refused(tmp_path, name, file):
    write(tmp_path, LIBRARIES["uncased"], TEMPLATES["BERT's"], {})
    edit_json(tmp_path / file, "tokenizer_class", to=name)
    with pytest.raises(InputError, match=f"tokenizer_class|{name} has BPE"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer_class"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("value", [5, "x", [5], {"x": 5}])
@pytest.mark.parametrize(
    ("file", "key"),
    [
        *(
            ("tokenizer.json", key)
            for key in ("added_tokens", "post_processor", "normalizer", "pre_tokenizer", "model")
        ),
        *(
            ("tokenizer_config.json", key)
            for key in ("added_tokens_decoder", "extra_special_tokens", "mask_token")
        ),
        ("tokenizer_config.json", "model_input_names"),
    ],
)
@pytest.mark.parametrize("tokenizer_class", ["BertTokenizer", "TokenizersBackend"])
def test_settings_and_parts_of_another_type_are_refused(tmp_path, file, key, value, tokenizer_class):
    config = {"do_lower_case": True, "tokenizer_class": tokenizer_class}
    write(tmp_path, lambda library: None, TEMPLATES["BERT's"], config)
    edit_json(tmp_path / file, key, to=value)
    may_be_read = pytest.raises(InputError) if key != "model_input_names" else suppress(InputError)
    with may_be_read:
        load_tokenizer(tmp_path)


def test_added_tokens_of_both_files_must_agree(tmp_path):
    table = {"7": {"content": "zz", "special": True}}
    write(tmp_path, LIBRARIES["uncased"], TEMPLATES["BERT's"], {"added_tokens_decoder": table})
    with pytest.raises(InputError, match=r"tokenizer_config\.json: added_tokens_decoder and added_tokens"):
        load_tokenizer(tmp_path)


def test_truncation_on_the_left_is_refused(tmp_path):
    truncation = {"direction": "Left", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    write(tmp_path, lambda library: library.update(truncation=truncation), TEMPLATES["BERT's"], {})
    assert AutoTokenizer.from_pretrained(tmp_path).truncation_side == "left"
    with pytest.raises(InputError, match=r'/tokenizer\.json: truncation_side is "left"'):
        load_tokenizer(tmp_path)


def test_data_sets_have_segments(tmp_path):
    config = {"do_lower_case": True, **INPUTS["no segments"]}
    write(tmp_path, LIBRARIES["uncased"], TEMPLATES["BERT's"], config)
    assert set(load_tokenizer(tmp_path).encode(*PAIR).token_type_ids) == {0}
    assert set(load_wordpiece(tmp_path).encode(*PAIR).token_type_ids) == {0, 1}


def prefix_space(library: tokenizers.Tokenizer) -> None:
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


def normalized(library: tokenizers.Tokenizer) -> None:
    library.normalizer = normalizers.NFKC()


def words_first(library: tokenizers.Tokenizer) -> None:
    steps = [pre_tokenizers.Whitespace(), pre_tokenizers.ByteLevel(), pre_tokenizers.Punctuation()]
    library.pre_tokenizer = pre_tokenizers.Sequence(steps)


@pytest.mark.parametrize("change", [lambda library: None, prefix_space, normalized, words_first])
@pytest.mark.parametrize(
    "tokenizer_class", ["RobertaTokenizer", "RobertaTokenizerFast", "PreTrainedTokenizerFast"]
)
@pytest.mark.parametrize("settings", [{}, {"add_prefix_space": True}, {"add_prefix_space": False}])
def test_byte_level_parts_are_those_of_the_class(tmp_path, change, tokenizer_class, settings):
    library = byte_level()
    change(library)
    library.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": tokenizer_class, **LIBRARY_ROLES, **settings}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    for model_type in ("roberta", "modernbert"):  # which ignores the class
        (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
        assert not compare(tmp_path)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "step", [None, normalizers.Replace(tokenizers.Regex(" {2,}"), " "), normalizers.NFC()]
)
def test_families_with_another_normalizer(tmp_path, family, step):
    FAMILIES[family].tokenizer(tmp_path).save_pretrained(tmp_path)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    if step is not None and family in ("roberta", "xlm-roberta", "modernbert"):
        library.normalizer = step
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    assert isinstance(load_tokenizer(tmp_path), LibraryTokenizer) == (family not in ("bert", "distilbert"))
    pairs = [(words, "film") for words in ("a good  film", " a bad\nday. ", "caf\u0065\u0301 the")]
    assert not compare(tmp_path, *pairs)


@pytest.mark.parametrize("settings", [{}, {"unk_token": "[UNK]"}, {"unk_token": "<unk>"}])
@pytest.mark.parametrize("tokenizer_class", ["MPNetTokenizer", "PreTrainedTokenizerFast"])
def test_the_unknown_token_of_mpnet(tmp_path, settings, tokenizer_class):
    FAMILIES["mpnet"].tokenizer(tmp_path).save_pretrained(tmp_path)
    size = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).get_vocab_size()
    edit_json(tmp_path / "tokenizer.json", "model", "vocab", "<unk>", to=size)
    roles = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    config = {"tokenizer_class": tokenizer_class, **roles, **settings}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mpnet"}))
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(tmp_path)
    for words in ("a zz film", "a <unk> [UNK] film"):
        assert ours.encode(words).input_ids == theirs(words)["input_ids"]
    assert ours.special_token("unk") == (theirs.unk_token or "[UNK]")


def test_another_unknown_id_than_that_of_xlm_roberta_is_refused(tmp_path):
    FAMILIES["xlm-roberta"].tokenizer(tmp_path).save_pretrained(tmp_path)
    edit_json(tmp_path / "tokenizer.json", "model", "unk_id", to=4)
    message = r"unk_id is 4, where XLMRobertaTokenizer has 3\. .*PreTrainedTokenizerFast"
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)
    edit_json(tmp_path / "tokenizer_config.json", "tokenizer_class", to="PreTrainedTokenizerFast")
    expected = AutoTokenizer.from_pretrained(tmp_path)("☃ film")["input_ids"]
    assert load_tokenizer(tmp_path).encode("☃ film").input_ids == expected


@pytest.mark.slow
def test_a_model_without_segments_answers_so_in_every_form(tmp_path):
    """As sentence-transformers, transformers, a copy of cloze and its graph do."""
    config = {"do_lower_case": True, **INPUTS["no segments"]}
    write(tmp_path, LIBRARIES["uncased"], TEMPLATES["BERT's"], config)
    torch.manual_seed(1)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    config = BertConfig(vocab_size=len(TOKENS), num_labels=1, initializer_range=0.5, **sizes)
    theirs = BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    with torch.inference_mode():
        inputs = AutoTokenizer.from_pretrained(tmp_path)(*PAIR, return_tensors="pt")
        expected = theirs(**inputs).logits.item()
        segments = torch.tensor([[0] * 5 + [1] * (inputs["input_ids"].shape[1] - 5)])
        assert abs(theirs(**inputs, token_type_ids=segments).logits.item() - expected) > 0.01
    cloze.import_model(tmp_path, output=tmp_path / "copy")
    cloze.export_model(tmp_path / "copy", output=tmp_path / "graph")
    for model in (tmp_path, tmp_path / "copy", tmp_path / "graph"):
        [answer] = cloze.TextRegressor.load(model, device="cpu")([PAIR])
        assert answer.score == pytest.approx(1 / (1 + math.exp(-expected)), abs=1e-5)
    names = AutoTokenizer.from_pretrained(tmp_path / "copy").model_input_names
    assert names == INPUTS["no segments"]["model_input_names"]
