"""Fine-tuning on labeled data: tasks, their data and kinds of answers, and predictions."""
