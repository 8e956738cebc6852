"""Ray integration: start-up, nodes, workers, failures and jobs; only this package imports ray."""
