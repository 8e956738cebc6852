"""Weights come back from their file exactly, with what they are."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open

from sclsearch.canonical import digest
from sclsearch.training.job import Work
from sclsearch.training.outcome import Outcome
from sclsearch.training.weights import save_weights


def test_weights_and_identity_come_back(
    tmp_path: Path, work_for: Callable[..., Work], trained: Callable[..., Outcome], method: str
) -> None:
    job, outcome = work_for(method).job, trained(method)
    path = tmp_path / "weights.safetensors"
    for _ in range(2):
        save_weights(path, outcome, job)
    assert list(path.parent.iterdir()) == [path]
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert stored.keys() == outcome.weights.keys()
    assert all(torch.equal(tensor, outcome.weights[name]) for name, tensor in stored.items())
    assert {name.partition(".")[0] for name in stored} == {"encoder", "parts"}
    assert metadata["key"] == job.key == digest(json.loads(metadata["identity"]))
    assert metadata["model"] == "tiny"
