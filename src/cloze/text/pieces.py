"""The names of the pieces that every BERT vocabulary has."""

import re

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
CONTINUATION = "##"
"""Stands before a piece that goes on with a word."""
UNUSED = re.compile(r"\[unused\d+\]")
"""A piece that holds a place for a word that is added later."""
