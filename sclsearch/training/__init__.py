"""Training engine for any method: batches, optimizer, stages, evaluation and best weights."""
