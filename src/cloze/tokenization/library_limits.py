"""Limits on what a `tokenizer.json` of others may do to a text."""

import base64
import math
import re
import struct
import unicodedata
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cloze.errors import InputError

_REPEATED_GROUP = re.compile(r"\)[+*{]")
_REMEDY = "Use another tokenizer"
_MAX_GROWTH = 256
"""Characters that replacements may make of one; those of published encoders make 36. A character takes 35 bytes."""


def check_library_json(library: dict[str, Any], file: Path) -> None:
    """Refuse expressions that repeat a group, and replacements that multiply the length of a text."""
    parts = {name: part for name, part in library.items() if name != "model"}
    for pattern in (table.get("Regex") for table in tables(parts)):
        if isinstance(pattern, str) and _REPEATED_GROUP.search(pattern):
            what = f"the regular expression {pattern!r} repeats a group, which may take without end"
            raise InputError(what, where=file, remedy=_REMEDY)
    for name in ("normalizer", "decoder"):
        factors = [_growth(step) for step in tables(library.get(name))]
        if math.prod(factors) > _MAX_GROWTH:
            what = f"the replacements of the {name} make over {_MAX_GROWTH} characters of one"
            raise InputError(what, where=file, remedy=_REMEDY)


class LibraryPanics(AbstractContextManager[None]):
    """Turns a panic of the library `tokenizers` into an InputError; it is a BaseException, as Ctrl-C is."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if type(error).__name__ == "PanicException":  # the library has no name for it to import
            what = f"cannot tokenize this text: {error}"
            raise InputError(what, where="tokenizer", remedy=_REMEDY) from error


def tables(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every table of a part of tokenizer.json, such as the steps of a normalizer and their patterns."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from tables(inner)


def _growth(step: dict[str, Any]) -> float:
    """Return the most characters that a step can turn one character into.

    Letters that Unicode's forms split count as many, so that these forms themselves multiply nothing.
    """
    try:
        if step.get("type") == "Replace":
            pattern, longest = step["pattern"], _full_length(step["content"])
            # an expression may match between any two characters, and so does the empty text
            return max(1, longest / len(pattern["String"])) if pattern.get("String") else 1 + longest
        if step.get("type") == "Prepend":
            return 1 + _full_length(step["prepend"])
        if step.get("type") == "Precompiled":
            # sentencepiece, src/normalizer.cc, `Normalizer::DecodePrecompiledCharsMap`: the size of a trie as 32 bits,
            # the trie, and texts that end with a zero
            charsmap = base64.b64decode(step["precompiled_charsmap"])
            (size,) = struct.unpack_from("<I", charsmap)
            texts = charsmap[4 + size :].decode("utf-8", "replace").split("\0")
            return max(1, *map(_full_length, texts))
    except (KeyError, TypeError, AttributeError, ValueError, struct.error):
        return 1  # the library refuses it
    return 1


def _full_length(text: str) -> int:
    return len(unicodedata.normalize("NFKD", text))
