"""Search space, records and readers of stored results for tests of whole studies."""

import json
from pathlib import Path
from typing import Any

from sclsearch.store.studies import StudyRecord

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
ORIGIN: dict[str, Any] = {
    **{"method": "scl", "task": "cola", "model": "bert", "protocol": "plain", "rule": "mean"},
    **{"train_size": None, "shots": None, "notes": [], "study": "first"},
}
SEED_RUN_ORIGIN = {**ORIGIN, "configuration": 0, "replicate": 0}
FIELDS = {"batch_size": 16, "epochs": 3, "learning_rate": 1e-5, "max_length": 64}
TRAINING = {"method": "scl", "metric": "mcc", "data": "d", "numerics": "cpu-fp32", "weights": "w"}
RECORD = StudyRecord(
    name="first",
    identity={
        **{"task": "cola", "model": "bert", "protocol": "plain", "size": None},
        "space": {"parameters": [], "tau": [0.1, 0.3]},
    },
    training={**TRAINING, "engine": 1, "evaluate": 20},
    origin=ORIGIN,
    open_configurations=3,
    created=1_700_000_000.5,
)
# Causes of failure of a seed run whose machine is gone, after and before Ray detects it.
LOST = {"node-lost", "worker-silent"}
REPRODUCIBLE = ("identity", "evaluations", "kept", "test", "predictions", "failure")


def stored(storage: Path) -> dict[str, Any]:
    """Return the seed runs of a storage folder by key."""
    files = (storage / "runs").glob("*.json")
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def reproducible_results(storage: Path) -> dict[str, Any]:
    """Return the parts of the stored seed runs that do not depend on machine and time."""
    return {key: {name: run[name] for name in REPRODUCIBLE} for key, run in stored(storage).items()}
