"""Ray integration: start-up, nodes, workers and failures; only this package imports ray."""

import os
from pathlib import Path

if Path(os.environ.get("HOME", "/"), ".ray", "auth_token").exists():
    # Ray reads this variable when it is imported. Without it, it sends the token to no cluster.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
