"""Tests of this machine's GPUs: an unusable driver, and CUDA MPS."""

import socket
import sys
from pathlib import Path

import pytest
import torch

from sclsearch.ray_backend.start import START_MPS, mps_advice, mps_is_running, unusable_gpu


@pytest.fixture(autouse=True)
def nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine with an NVIDIA GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


def test_an_unusable_gpu_driver_is_reported_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = tmp_path / "version"
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13\n")
    assert unusable_gpu(driver) == ""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert unusable_gpu(tmp_path / "none") == ""
    message = unusable_gpu(driver)
    assert message.startswith("This machine has NVIDIA driver 470.57.02, but torch ")
    assert torch.__version__ in message


@pytest.mark.skipif(sys.platform != "linux", reason="MPS needs Linux")
def test_mps_runs_while_its_daemon_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", ".")  # the path of a socket must be short
    assert mps_is_running() is False
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as daemon:
        daemon.bind("control")
        daemon.listen()
        assert mps_is_running() is True
    assert Path("control").is_socket()  # the socket file outlives the daemon
    assert mps_is_running() is False
    monkeypatch.setattr(torch.version, "cuda", None)  # a GPU of AMD
    assert mps_is_running() is None


def test_mps_is_advised_if_seed_runs_share_a_gpu_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for runs in (True, None, False):
        monkeypatch.setattr("sclsearch.ray_backend.start.mps_is_running", lambda: runs)  # noqa: B023
        advised = [any(START_MPS in one for one in mps_advice(gpus, 2)) for gpus in (0.5, 1.0, 0.0)]
        assert advised == [runs is False, False, False]
    assert mps_advice(0.5, 1) == []
