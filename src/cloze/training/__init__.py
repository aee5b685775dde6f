"""The training loop, which knows no task."""
