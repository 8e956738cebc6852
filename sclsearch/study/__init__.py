"""Studies: their specification, resolution and seed run keys; no Ray, no Optuna."""
