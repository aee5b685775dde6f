"""The whole life of a BERT on bundled text."""
