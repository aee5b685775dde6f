"""What the page of the server shows of a model: layers, attention, word senses, answer spans."""
