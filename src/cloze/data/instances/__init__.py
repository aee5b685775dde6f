"""Data sets to training instances."""
