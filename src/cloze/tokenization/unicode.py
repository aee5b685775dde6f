"""Classes of characters as BERT's tokenizer defines them."""

from cloze.text_encoding import LONE_SURROGATE

_CHINESE_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
SCRIPTS_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff"  # Thai, Lao, Tibetan, Burmese, Khmer, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Characters of scripts that do not put spaces between words, for a class of a regular expression."""


def replace_lone_surrogates(text: str) -> str:
    r"""Replace lone surrogates, which come from broken JSON escapes and cannot be encoded, by U+FFFD.

    BERT's cleaning deletes U+FFFD. Offsets stay the same.

    >>> replace_lone_surrogates("half \ud83d of a pair")
    'half \ufffd of a pair'
    """
    return text if text.isascii() else LONE_SURROGATE.sub("\ufffd", text)


def is_chinese(character: str) -> bool:
    """Return whether a character is a Chinese character, in any language; kana and hangul are not."""
    return any(first <= ord(character) <= last for first, last in _CHINESE_BLOCKS)
