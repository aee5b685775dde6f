"""Formats of tagged words and of texts with spans."""
