"""Answers of a trained model."""
