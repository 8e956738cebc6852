"""The engine: stages, optimiser, batches, evaluation, best weights. It knows no method by name."""
