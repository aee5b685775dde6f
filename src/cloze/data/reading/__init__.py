"""Readers of text and tables."""
