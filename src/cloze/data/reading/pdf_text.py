"""Text that was extracted or copied from PDFs: words divided at line ends, ligatures, soft hyphens."""

import re
import unicodedata

_LIGATURE = re.compile("[\ufb00-\ufb06]")
_SOFT_HYPHEN = re.compile(r"\xad(?:[ \t]*\n\s*)?")
_LETTERS = r"[^\W\d_]++"
_DIVIDED = re.compile(rf"(?<![^\W\d_])({_LETTERS})[-\u2010][ \t]*\n\s*(?=({_LETTERS}))")
_HYPHENATED = re.compile(rf"(?<![^\W\d_]){_LETTERS}[-\u2010]{_LETTERS}")


def clean_pdf_text(text: str) -> tuple[str, int]:
    r"""Return a text without marks of a page's layout, and the number of changes.

    A word that a hyphen divides at a line end is joined, unless the text has it with the hyphen within a line, or only
    one of its halves is in capitals. Ligatures become letters, and soft hyphens are deleted. Time is linear.

    >>> clean_pdf_text("The \ufb01rst exam-\nple is well-\nknown: a well-known one.")
    ('The first example is well-\nknown: a well-known one.', 2)
    """
    text, ligatures = _LIGATURE.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text, soft_hyphens = _SOFT_HYPHEN.subn("", text)
    divided = [match.groups() for match in _DIVIDED.finditer(text)]
    if not divided:
        return text, ligatures + soft_hyphens
    hyphenated = {word.replace("\u2010", "-").lower() for word in _HYPHENATED.findall(text)}

    def is_one_word(head: str, tail: str) -> bool:
        same_case = tail[0].islower() if head[-1].islower() else head.isupper() and tail[0].isupper()
        return same_case and f"{head}-{tail}".lower() not in hyphenated

    text = _DIVIDED.sub(lambda match: match[1] if is_one_word(*match.groups()) else match[0], text)
    return text, ligatures + soft_hyphens + sum(is_one_word(*halves) for halves in divided)
