"""From batches of a reader to a model: what to learn, passes over the rows, figures, checkpoints, evaluation."""
