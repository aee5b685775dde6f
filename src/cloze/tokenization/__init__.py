"""Text to token ids: the WordPiece tokenizer, its vocabularies, and sentence splitting."""
