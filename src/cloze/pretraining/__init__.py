"""Masked words and next sentence: the pre-training objective and its run."""
