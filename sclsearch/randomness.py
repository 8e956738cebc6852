"""Independent random streams, one per purpose: draws for one purpose never change another's."""

import hashlib

import numpy as np


def seed_for(seed: int, purpose: str) -> int:
    """Return a 63-bit seed that depends only on the arguments."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Return the random generator for one purpose, for example `stream(3, "order")`."""
    return np.random.default_rng(seed_for(seed, purpose))
