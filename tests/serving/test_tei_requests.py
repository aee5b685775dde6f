"""Truncation on the left is that of Hugging Face's tokenizers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cloze.tokenization.loading import load_tokenizer

pytestmark = pytest.mark.protected

LONG = " ".join("abcdefghij"[i % 10] for i in range(60))


def test_left_truncation_of_pairs_is_that_of_tokenizers(directories: Mapping[str, Path]) -> None:
    path = directories["encoder"]
    tokenizer = load_tokenizer(path)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(path), truncation_side="left")
    for text, pair in ((LONG, None), (LONG, "a b c"), ("a b c", LONG)):
        ours = tokenizer.encode(text, pair, max_length=20, truncation_side="left")
        expected = theirs(text, pair, truncation=True, max_length=20)
        assert ours.input_ids == expected["input_ids"]
        assert ours.token_type_ids == expected["token_type_ids"]
