"""Storage of seed runs and studies as JSON objects: writes are atomic, results final."""
