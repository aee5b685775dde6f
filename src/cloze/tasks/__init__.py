"""Fine-tuning: what there is to learn (tasks, over a few families) and how it is learned."""
