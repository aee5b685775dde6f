"""Every encoder: its classes in transformers, a tokenizer as published, and settings."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import tokenizers
import transformers

from cloze.models.encoder import Encoder, encoders
from cloze.models.encoder_config import EncoderConfig
from tiny_models import SPECIAL

WORDS = ("a", "good", "fine", "bad", "poor", "day", "film", "was", "it", "the", ".", "##s")
TEXTS = ("it was a good day.", "the film", "a bad film.")
ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def wordpiece(_: Path) -> Any:
    tokens = (*SPECIAL, *WORDS)
    return transformers.DistilBertTokenizer(vocab={token: number for number, token in enumerate(tokens)})


def wordpiece_of_mpnet(_: Path) -> Any:
    tokens = ("<s>", "<pad>", "</s>", "[UNK]", "<mask>", *WORDS)
    return transformers.MPNetTokenizer(vocab={token: number for number, token in enumerate(tokens)})


def bytes_of_roberta(directory: Path) -> Any:
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator([*TEXTS * 5, "café 学"], vocab_size=290, special_tokens=[*ROBERTA_SPECIAL])
    library.save_model(str(directory))
    tokenizer = transformers.RobertaTokenizerFast.from_pretrained(directory)
    for name in ("vocab.json", "merges.txt"):
        (directory / name).unlink()
    return tokenizer


def unigrams(_: Path) -> Any:
    characters = sorted(set("".join(WORDS) + "é学"))
    pieces = [*(f"▁{word}" for word in WORDS if word.isalpha()), "▁", *characters]
    scores = [(token, 0.0) for token in ROBERTA_SPECIAL] + [(piece, -float(len(pieces))) for piece in pieces]
    return transformers.XLMRobertaTokenizer(vocab=scores)


def bytes_of_modern_bert(_: Path) -> Any:
    """Return byte-level BPE without a space before the first word, and with BERT's names."""
    library = tokenizers.ByteLevelBPETokenizer()
    library.train_from_iterator([*TEXTS * 5, "café 学"], vocab_size=290, special_tokens=list(SPECIAL))
    names = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=library._tokenizer, model_input_names=["input_ids", "attention_mask"], **names
    )
    tokenizer.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[(name, library.token_to_id(name)) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


class Family(NamedTuple):
    """A family of encoders in transformers."""

    classes: str
    """The prefix of the names of its classes."""
    tokenizer: Callable[[Path], Any]
    """Returns a tokenizer as published; may write files into a directory."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """Fields of its config besides those of all encoders."""


_WINDOWS = {"local_attention": 8, "hidden_dropout_prob": 0.0, "classifier_pooling": "mean"}
FAMILIES = {
    "bert": Family("Bert", wordpiece),
    "distilbert": Family("DistilBert", wordpiece),
    "roberta": Family("Roberta", bytes_of_roberta, {"type_vocab_size": 1}),
    "modernbert": Family("ModernBert", bytes_of_modern_bert, _WINDOWS),
    "xlm-roberta": Family("XLMRoberta", unigrams, {"type_vocab_size": 1}),
    "mpnet": Family("MPNet", wordpiece_of_mpnet),
}
OTHERS = [model_type for model_type in FAMILIES if model_type != "bert"]


def make_config(model_type: str, config: EncoderConfig, **settings: Any) -> EncoderConfig:
    """Return the config of an encoder with the fields of another."""
    shared = {field.name: getattr(config, field.name) for field in fields(EncoderConfig)}
    special = FAMILIES[model_type].settings if model_type in FAMILIES else {}
    return encoders()[model_type].config_class(**{**shared, **special, **settings})


def make_encoder(model_type: str, config: EncoderConfig, **settings: Any) -> Encoder:
    """Return an encoder with the fields of a config."""
    return encoders()[model_type](make_config(model_type, config, **settings))


def published_config(model_type: str, tokenizer: Any, **sizes: Any) -> Any:
    """Return the config of transformers for a small model with a tokenizer."""
    ids = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("pad", "bos", "eos")}
    config = make_config(model_type, EncoderConfig(vocab_size=len(tokenizer), **sizes))
    table = {**config.to_json(), **{name: number for name, number in ids.items() if number is not None}}
    return transformers.AutoConfig.for_model(model_type, **table)
