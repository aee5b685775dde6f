"""Documents to training instances."""
