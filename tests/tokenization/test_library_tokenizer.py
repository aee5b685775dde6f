"""Tokenizers of other kinds than WordPiece: ids, offsets, pairs and lengths equal those of transformers."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from cloze.cli import main
from cloze.data.reading.tagged_text import Sentence
from cloze.errors import InputError
from cloze.tasks.features import encode_text, tagging_features
from cloze.tokenization.library_tokenizer import LibraryTokenizer
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from helpers import edit_json

TEXTS = ("Hello wörld, it's 学 a test.", "the tests  were hello\nworlds", "x", "a</s>b <mask> c", "")
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
ROLES = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token", "mask_token"), SPECIAL, strict=True))


def byte_level(special: Sequence[str] = SPECIAL) -> tokenizers.Tokenizer:
    """As RoBERTa: two separators between the texts of a pair, one segment, no spaces in offsets."""
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=list(special), initial_alphabet=alphabet)
    library.train_from_iterator(TEXTS, trainer)
    library.decoder = tokenizers.decoders.ByteLevel()
    sep, cls = (special[2], 2), (special[0], 0)
    library.post_processor = processors.RobertaProcessing(sep, cls, add_prefix_space=False)
    return library


def unigram(special: Sequence[str] = SPECIAL) -> tokenizers.Tokenizer:
    """As SentencePiece writes it: words begin with a mark, and the second text is another segment."""
    library = tokenizers.Tokenizer(models.Unigram())
    library.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    library.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=90, special_tokens=list(special), unk_token="<unk>")
    library.train_from_iterator(TEXTS * 4, trainer)
    library.decoder = tokenizers.decoders.Metaspace()
    library.post_processor = processors.TemplateProcessing(
        single="<s>:0 $A:0 </s>:0",
        pair="<s>:0 $A:0 </s>:0 $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return library


KINDS: Mapping[str, Callable[..., tokenizers.Tokenizer]] = {"BPE": byte_level, "Unigram": unigram}


def write(directory: Path, kind: str, **config: Any) -> Path:
    library = KINDS[kind]()
    library.enable_truncation(5)
    library.enable_padding()
    library.save(str(directory / "tokenizer.json"))
    table = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 40, **ROLES, **config}
    (directory / "tokenizer_config.json").write_text(json.dumps(table))
    return directory


@pytest.fixture(scope="module", params=KINDS)
def directory(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return write(tmp_path_factory.mktemp("tokenizer"), request.param, model_input_names=inputs)


@pytest.fixture
def ours(directory: Path) -> Tokenizer:
    return load_tokenizer(directory)


@pytest.fixture
def theirs(directory: Path) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.no_truncation()
    library.no_padding()
    return library


@pytest.mark.protected
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("pair", [None, *TEXTS[:2]])
def test_encodings_equal_the_library(ours, theirs, text, pair):
    encoding, expected = ours.encode(text, pair), theirs.encode(text, pair)
    assert encoding.input_ids == expected.ids
    assert encoding.token_type_ids == expected.type_ids
    assert encoding.tokens == expected.tokens
    assert encoding.sequence_ids == expected.sequence_ids
    texts = (text, pair)
    offsets = zip(expected.sequence_ids, encoding.offsets, expected.offsets, strict=True)
    for index, (start, end), (_, their_end) in offsets:
        assert end == their_end
        if index is not None:
            covered = texts[index][start:end]
            assert covered == covered.lstrip() or not covered.strip()


def test_ids_take_special_tokens_as_text(ours):
    flat, lengths = ours.ids(TEXTS)
    assert len(lengths) == len(TEXTS)
    assert lengths.sum() == len(flat)
    if ours.kind == "BPE":  # the vocabulary of a Unigram has them as words, too
        assert not {ours.mask_id, ours.sep_id} & set(flat.tolist())
    assert ours.mask_id in ours.encode(TEXTS[3]).input_ids
    assert [list(ids) for ids in ours.text_ids(TEXTS)] == [
        ours.encode(text).input_ids[1:-1] for text in TEXTS
    ]
    assert not ours.is_continuation[ours.mask_id]
    assert ours.ids(TEXTS[:1])[0].tolist() == ours.encode(TEXTS[0]).input_ids[1:-1]


@pytest.mark.parametrize("pair", [None, TEXTS[1]])
@pytest.mark.parametrize("max_length", [5, 9, 11])
def test_truncation_keeps_the_special_tokens(ours, pair, max_length):
    whole, cut = ours.encode(TEXTS[0], pair), ours.encode(TEXTS[0], pair, max_length=max_length)
    template = ours.template(is_pair=pair is not None)
    assert len(cut) == min(max_length, len(whole))
    assert cut.sequence_ids.count(None) == template.num_special
    assert cut.input_ids[0] == ours.cls_id
    assert cut.input_ids[-1] == ours.sep_id
    assert sum(token_id == ours.sep_id for token_id in cut.input_ids) == template.num_special - 1
    with pytest.raises(InputError, match="no room"):
        ours.encode(TEXTS[0], pair, max_length=template.num_special - 1)


def test_windows_of_a_pair_have_its_template(ours):
    windows = encode_text(ours, TEXTS[0], TEXTS[1], max_seq_length=15, long_texts="windows")
    assert len(windows) > 1
    middle = ours.template(is_pair=True).special_ids[1]
    for window in windows:
        ids = tuple(window.input_ids)
        assert len(ids) <= 15
        assert ids[0] == ours.cls_id
        assert middle in {ids[i : i + len(middle)] for i in range(len(ids))}


def test_words_of_a_text_are_tokens_after_a_space(ours):
    ids, lengths = ours.word_ids(["hello", "hello"])
    assert lengths[0] == lengths[1]
    assert ours.decode(ids.tolist()).split() == ["hello", "hello"]
    first, rest = ids[0], ids[1 : lengths[0]]
    assert not ours.is_continuation[first]
    assert ours.is_continuation[rest].all()


def test_saved_and_loaded_again(ours, tmp_path):
    ours.save(tmp_path)
    assert load_tokenizer(tmp_path) == ours
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert theirs.model_max_length == 40
    assert theirs(TEXTS[0]).input_ids == ours.encode(TEXTS[0]).input_ids
    assert theirs.mask_token == ours.special_token("mask") == "<mask>"


def test_special_tokens_that_no_file_names_have_the_usual_names(tmp_path):
    """As in the directory of roberta-base."""
    write(tmp_path, "BPE")
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.roles == {role.removesuffix("_token"): token for role, token in ROLES.items()}


def test_roles_of_special_tokens_map_and_missing_ones(tmp_path):
    byte_level(["<a>", "<p>", "<b>", "<c>"]).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"tokenizer_config\.json: names no cls_token"):
        load_tokenizer(tmp_path)
    roles = {"bos_token": "<a>", "eos_token": {"content": "<b>"}, "pad_token": "<p>"}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id) == (0, 2, 1)
    with pytest.raises(InputError, match="the tokenizer has no mask token"):
        _ = tokenizer.mask_id
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(roles | {"pad_token": "[PAD]"}))
    with pytest.raises(InputError, match=r"pad token '\[PAD\]' is not in the vocabulary"):
        load_tokenizer(tmp_path)


def test_data_sets_are_wordpiece(directory, tmp_path, capsys):
    assert isinstance(load_tokenizer(directory), LibraryTokenizer)
    (tmp_path / "text.txt").write_text("hello\n\nworld\n")
    command = f"corpus {tmp_path}/text.txt --vocabulary {directory} -o {tmp_path}/data"
    assert main(command.split()) == 2
    assert "vocabularies and data sets are BERT's WordPiece" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


PREFIXED = pre_tokenizers.ByteLevel(add_prefix_space=True)
PRE_TOKENIZERS = {
    "prefix": [PREFIXED],
    "no prefix": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "RobBERT": [pre_tokenizers.Whitespace(), PREFIXED, pre_tokenizers.Punctuation()],
    "digits": [pre_tokenizers.Digits(), PREFIXED],
    "Metaspace": [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()],
}


@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_offsets_cover_whole_words(tmp_path, name, trims):
    library = byte_level()
    library.pre_tokenizer = pre_tokenizers.Sequence(PRE_TOKENIZERS[name])
    words = ["Ada", "woont", "in", "Gelre", ",", "sinds", "1912", "."]
    text = "Ada woont  in Gelre, sinds 1912."
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet)
    library.train_from_iterator([text] * 4, trainer)
    roberta = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=trims)
    library.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=trims), roberta])
    library.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(ROLES))
    encoding = load_tokenizer(tmp_path).encode(text)
    covered = [text[start:end] for start, end in encoding.offsets[1:-1]]
    assert "".join(dict.fromkeys(part for part in covered if part.strip())) == "".join(words)
    assert all(part == part.strip() or not part.strip() for part in covered)
    assert encoding.input_ids == library.encode(text).ids


def test_dropout_is_for_training(tmp_path):
    write(tmp_path, "BPE")
    expected = load_tokenizer(tmp_path).encode(TEXTS[1])
    edit_json(tmp_path / "tokenizer.json", "model", "dropout", to=0.5)
    tokenizer = load_tokenizer(tmp_path)
    assert all(tokenizer.encode(TEXTS[1]) == expected for _ in range(20))
    tokenizer.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert all(theirs(TEXTS[1]).input_ids == expected.input_ids for _ in range(20))


def test_words_without_tokens_need_a_token_for_unknown_words(tmp_path):
    write(tmp_path, "BPE")
    table = json.loads((tmp_path / "tokenizer.json").read_text().replace("<unk>", "<other>"))
    table["normalizer"] = {"type": "Replace", "pattern": {"Regex": ".*\u200b"}, "content": ""}
    (tmp_path / "tokenizer.json").write_text(json.dumps(table))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **ROLES, "unk_token": None}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.unknown_id is None
    words = [Sentence(("hello", "\u200b"))]
    with pytest.raises(InputError, match="has no token"):
        tagging_features(words, [[0, 0]], tokenizer, max_seq_length=9)
