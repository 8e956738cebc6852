"""Ray integration: start-up, nodes, workers and failures; only this package imports ray."""
