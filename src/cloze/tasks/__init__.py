"""Fine-tuning: one file a task over a few families."""
