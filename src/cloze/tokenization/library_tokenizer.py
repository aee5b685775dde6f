"""Tokenizers of any kind in tokenizer.json, such as byte-level BPE, for models that other programs trained."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from cloze.errors import InputError
from cloze.file_names import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.tokenization.tokenizer import SpecialRole, Tokenizer
from cloze.tokenization.tokenizer_class import GENERIC_CLASSES, build_parts
from cloze.tokenization.tokenizer_files import DAMAGED_REMEDY, TokenizerFiles, tokens_by_id

_ROLES: Mapping[SpecialRole, tuple[str, ...]] = {
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "cls": ("cls_token", "bos_token"),
    "sep": ("sep_token", "eos_token"),
    "mask": ("mask_token",),
}
"""The keys of tokenizer_config.json for each role; the first one present counts."""
_USUAL: Mapping[SpecialRole, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]"),
    "unk": ("<unk>", "[UNK]"),
    "cls": ("<s>", "[CLS]"),
    "sep": ("</s>", "[SEP]"),
    "mask": ("<mask>", "[MASK]"),
}
"""Special tokens where no file names them, as in the published RoBERTa: transformers knows them by its class."""
_TEMPLATE_ROLES: tuple[SpecialRole, ...] = ("sep", "cls")
_ENCODER_REMEDY = "Use the tokenizer of an encoder"


@dataclass(frozen=True)
class LibraryTokenizer(Tokenizer):
    """A tokenizer that the library `tokenizers` reads from `tokenizer.json`."""

    library_json: str = field(default="", repr=False)
    """The contents of tokenizer.json."""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False, hash=False)
    """Those of tokenizer_config.json."""

    @classmethod
    def parse(cls, files: TokenizerFiles) -> "LibraryTokenizer":
        """Build the tokenizer of a directory; refuse one without [CLS], [SEP] or a place for them."""
        assert files.library is not None
        library, directory, settings = files.library, files.directory, files.roles
        file = directory / TOKENIZER_FILE
        if isinstance(model := library.get("model"), dict) and model.get("dropout"):
            model["dropout"] = None  # BPE would split a text otherwise at each call
        backend = tokenizers.Tokenizer.from_str(json.dumps(library))
        ids = backend.get_vocab(with_added_tokens=True)
        tokens = tokens_by_id(ids, file)
        files.check_added_tokens()
        unk = getattr(backend.model, "unk_token", None)
        roles = _find_roles(settings, set(ids), directory, unk=unk)
        if builds_parts := files.tokenizer_class not in (None, *GENERIC_CLASSES):
            sep, cls_ = ((roles[role], ids[roles[role]]) for role in _TEMPLATE_ROLES)
            class_name = str(files.tokenizer_class)
            if "unk" in roles and unk is not None:
                backend.model.unk_token = roles["unk"]
            build_parts(backend, library, class_name, settings, sep=sep, cls=cls_, where=file)
        named = {role for role, keys in _ROLES.items() if builds_parts or any(map(settings.get, keys))}
        special = {*(roles[role] for role in roles if role in named), *files.extra_tokens(ids)}
        special -= {token.content for token in backend.get_added_tokens_decoder().values()}
        if special:
            added = [tokenizers.AddedToken(token, normalized=False) for token in sorted(special)]
            backend.add_special_tokens(added)
        if builds_parts or special:
            library = json.loads(backend.to_str())
        normalizer = backend.normalizer
        lowercase = normalizer is not None and normalizer.normalize_str("A").strip("▁ ") == "a"
        tokenizer = cls(
            tuple(tokens),
            lowercase=lowercase,
            model_max_length=files.model_max_length,
            feeds_segments=files.feeds_segments,
            library_json=json.dumps(library, ensure_ascii=False),
            settings={
                "tokenizer_class": files.tokenizer_class or "PreTrainedTokenizerFast",
                **settings,
                "model_max_length": files.model_max_length,
            },
            roles=roles,
        )
        tokenizer._check_template(file)
        return tokenizer

    def text_of(self, token_id: int) -> str:
        return self.decode([token_id]) or self.tokens[token_id]

    def _files(self) -> dict[str, str]:
        settings = {**self.settings, "model_max_length": self.model_max_length}
        return {
            TOKENIZER_FILE: self.library_json + "\n",
            TOKENIZER_CONFIG_FILE: json.dumps(settings, indent=2, ensure_ascii=False) + "\n",
        }

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        """The tokenizer of the library, without truncation and padding."""
        backend = tokenizers.Tokenizer.from_str(self.library_json)
        backend.no_truncation()
        backend.no_padding()
        # The library trims as many characters as a token has spaces, also for spaces that it added itself.
        processor = backend.post_processor
        steps: Any = processor if isinstance(processor, processors.Sequence) else [processor]
        for step in steps:
            if hasattr(step, "trim_offsets"):
                step.trim_offsets = False
        return backend

    def _offsets(self, text: str, encoding: tokenizers.Encoding) -> list[tuple[int, int]]:
        """Return the characters of each token, without white space around others."""
        offsets = []
        for start, end in encoding.offsets:
            if covered := text[start:end].strip():
                start = text.index(covered, start)
                end = start + len(covered)
            offsets.append((start, end))
        return offsets

    def _check_template(self, file: Path) -> None:
        sequences = self._backend.encode("a", "a").sequence_ids
        places = [sequence for sequence in sequences if sequence is not None]
        what = "puts the second text first" if places != sorted(places) else ""
        for template in self._templates:
            if (largest := max(chain(*template.special_ids), default=0)) >= self.vocab_size:
                what = (
                    f"puts the id {largest} around texts, but the vocabulary has {self.vocab_size:,} tokens"
                )
            elif (segment := max(chain(*template.special_types, template.text_types))) > 1:
                what = f"has a segment {segment}, where encoders know 0 and 1"
            elif not len(template.special_ids[0]) == len(template.special_ids[-1]) == 1:
                what = "does not put one special token before a text and one after it"
            if what:
                raise InputError(f"{what} (post_processor)", where=file, remedy=_ENCODER_REMEDY)


def _find_roles(
    settings: Mapping[str, Any], tokens: set[str], directory: Path, *, unk: str | None
) -> dict[SpecialRole, str]:
    """Return the special tokens by their roles; [CLS], [SEP] and padding are required.

    The model's own token for unknown words is the default: MPNet has <unk>, too, which it does not use.
    """
    roles: dict[SpecialRole, str] = {}
    for role, keys in _ROLES.items():
        values = [settings[key] for key in keys if settings.get(key)]
        usual = (unk, *_USUAL[role]) if role == "unk" else _USUAL[role]
        values += [token for token in usual if token in tokens]
        if values:
            roles[role] = str(values[0].get("content") if isinstance(values[0], dict) else values[0])
    where = directory / TOKENIZER_CONFIG_FILE
    for role in ("cls", "sep", "pad"):
        if role not in roles:
            raise InputError(f"names no {_ROLES[role][0]}", where=where, remedy=DAMAGED_REMEDY)
    for role, token in roles.items():
        if token not in tokens:
            raise InputError(f"the {role} token {token!r} is not in the vocabulary", where=where)
    return roles
