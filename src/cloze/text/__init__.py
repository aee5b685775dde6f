"""Characters to pieces: the tokenizer, the vocabulary, sentences."""
