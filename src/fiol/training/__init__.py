"""Train a model from the batches of a reader: task inference, passes, metrics, checkpoints, evaluation."""
