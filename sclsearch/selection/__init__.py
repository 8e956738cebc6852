"""Selection rules, early stopping of weak configurations, and statistics; pure functions."""
