"""Search of a study: resolves options, trains seed runs on Ray Tune and records the results."""
