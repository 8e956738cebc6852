"""Study specifications, their resolution and the keys of seed runs; no Ray, no Optuna."""
