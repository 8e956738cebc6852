"""MLflow tracking: a write-only copy of study results, which no decision reads."""
