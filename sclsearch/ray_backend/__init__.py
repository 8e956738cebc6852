"""Ray: start-up, nodes, workers, failures and jobs; the only package that imports ray."""
