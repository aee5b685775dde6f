"""A server for all that a BERT answers: HTTP at the door, one thread that computes behind it."""
