"""Encoders that only experiments use."""
