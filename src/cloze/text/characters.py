"""Facts about characters that both tokenizers need."""

import re

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_lone_surrogates(text: str) -> str:
    r"""Put U+FFFD in place of lone surrogates, which no encoding of Unicode can hold.

    They come from broken JSON escapes. BERT's cleaning deletes U+FFFD; positions stay what they were.

    >>> replace_lone_surrogates("half \ud83d of a pair")
    'half \ufffd of a pair'
    """
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
