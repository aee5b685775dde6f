"""Text to vocabularies and data sets."""
