"""What tests of whole studies share: a space, and what is the same wherever a study was run."""

import json
import time
from pathlib import Path
from typing import Any

SPACE = """
method: scl
source: a test
published:
  - {tau: 0.3, lam: 0.9, learning_rate: 1e-2}
fixed: {epochs: 8, batch_size: 8, max_length: 16, pooling: mean}
space:
  tau: {type: choice, values: [0.1, 0.3, 0.5]}
  lam: {type: choice, values: [0.5, 0.9]}
  learning_rate: {type: log, low: 1e-3, high: 3e-2}
"""
# What Ray says of a machine that is gone, before and after it knows.
LOST = {"node-lost", "worker-silent"}
FIGURES = ("identity", "evaluations", "kept", "test", "predictions", "failure")


def stored(storage: Path) -> dict[str, Any]:
    """Returns the seed runs of a storage folder, by key."""
    files = (storage / "runs").glob("*.json")
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def amid(storage: Path, least: int, quiet: float) -> bool:
    """Returns whether so many seed runs are stored, the last of them some seconds ago.

    Its worker looks busy for a moment longer: what goes with it then is not lost.
    """
    times = [path.stat().st_mtime for path in (storage / "runs").glob("*.json")]
    return len(times) >= least and time.time() - max(times) > quiet


def figures(storage: Path) -> dict[str, Any]:
    """Returns what must not depend on where and when its seed runs were trained."""
    runs = stored(storage).items()
    return {key: {name: run[name] for name in FIGURES} for key, run in runs}
