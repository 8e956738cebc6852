"""Every draw comes from a stream named by its purpose, so no draw disturbs another."""

import hashlib

import numpy as np


def seed_for(seed: int, purpose: str) -> int:
    """Returns a 63-bit seed that depends on nothing but its arguments."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stream(seed: int, purpose: str) -> np.random.Generator:
    """Returns the random stream of one purpose, e.g. `stream(3, "order")`."""
    return np.random.default_rng(seed_for(seed, purpose))
