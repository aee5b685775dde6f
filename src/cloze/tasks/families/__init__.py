"""Families of tasks: each says what its examples, loss, predictions and metrics are."""
