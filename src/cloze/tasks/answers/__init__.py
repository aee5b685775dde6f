"""Kinds of answers: how each is written, learned, decoded and scored."""
