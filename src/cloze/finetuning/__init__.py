"""Fine-tuning: runs on labeled data, over seeds and grids, with teachers, and their baselines."""
