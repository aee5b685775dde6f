"""Fine-tuning on labeled data: tasks, their families and benchmarks, runs and predictions."""
