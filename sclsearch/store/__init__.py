"""Storage of seed runs and studies as JSON objects; writes are atomic; only a later test changes a result."""
