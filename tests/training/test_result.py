"""Storage of weights: exact, with the identity of the seed run."""

import errno
import json
import resource
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from sclsearch.canonical import digest
from sclsearch.training.evaluation import save_tensors, save_weights
from tests.training.conftest import Trained, WorkFor


def test_stored_weights_and_identity_are_exact(
    tmp_path: Path,
    work_for: WorkFor,
    trained: Trained,
    method: str,
) -> None:
    spec, result = work_for(method).spec, trained(method)
    path = tmp_path / "weights.safetensors"
    for _ in range(2):
        save_weights(path, result, spec)
    assert list(path.parent.iterdir()) == [path]
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    assert stored.keys() == result.weights.keys()
    assert all(torch.equal(tensor, result.weights[name]) for name, tensor in stored.items())
    assert {name.partition(".")[0] for name in stored} == {"encoder", "new_modules"}
    assert metadata["key"] == spec.key == digest(json.loads(metadata["identity"]))
    assert metadata["model"] == "tiny"


def test_a_full_disk_raises_an_os_error_with_the_path(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            save_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(1000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == str(tmp_path / "weights.safetensors")
