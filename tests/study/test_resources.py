"""Tests of cluster addresses, GPU shares, numerics and MPS."""

import math
import socket
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.start import START_MPS, mps_advice, mps_is_running, unusable_gpu
from sclsearch.search.prepare import gpus_each
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions
from tests.workspace import MakeSpec


@pytest.mark.parametrize("address", [None, "auto", "10.0.0.1:6379", "head.local:6379", "[::1]:63"])
def test_addresses_within_a_cluster_are_accepted(address: str | None) -> None:
    assert RunOptions(address=address).address == address


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265"])
def test_other_addresses_are_refused_with_the_command_to_use(address: str) -> None:
    with pytest.raises(SclsearchError) as refused:
        RunOptions(address=address)
    assert str(refused.value).startswith("--address: must be auto or HOST:PORT")
    assert str(refused.value).endswith(f"got {address!r}.")
    assert "submit --address http://HOST:8265 -- sclsearch tune" in str(refused.value)


@pytest.mark.parametrize("share", [-1.0, -0.5, 1.5, 2.0, math.inf, math.nan])
def test_an_invalid_gpu_share_is_refused(share: float) -> None:
    with pytest.raises(SclsearchError, match=r"^--gpus-per-trial: must be 0, 1/k or 1, .* got "):
        RunOptions(gpus_per_trial=share)


@given(k=st.integers(1, 100), digits=st.integers(3, 6))
def test_a_rounded_share_of_1_over_k_is_accepted_and_k_fill_a_gpu(k: int, digits: int) -> None:
    share = RunOptions(gpus_per_trial=round(1 / k, digits) if k < 10 else 1 / k).gpus_per_trial
    assert share is not None
    assert k * share <= 1
    assert (k + 1) * share > 1


@pytest.mark.parametrize(
    ("share", "nearest"),
    [(0.4, "0.3333 or 0.5"), (0.3, "0.25 or 0.3333"), (0.7, "0.5 or 1")],
)
def test_other_shares_are_refused_with_the_two_nearest(share: float, nearest: str) -> None:
    with pytest.raises(SclsearchError, match=rf"^--gpus-per-trial: .* {nearest}, got {share}\.$"):
        RunOptions(gpus_per_trial=share)


def test_a_cluster_search_without_a_local_gpu_requires_gpus_per_trial(
    make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SclsearchError, match=r"^--gpus-per-trial: is missing"):
        resolve(make_spec(), RunOptions(address="auto"))
    assert resolve(make_spec(), RunOptions(address="auto", gpus_per_trial=0)).numerics == "cpu-fp32"
    assert resolve(make_spec(), RunOptions()).numerics == "cpu-fp32"


@pytest.mark.parametrize(
    ("precision", "gpus", "fast", "numerics"),
    [
        ("auto", 0, True, "cpu-fp32"),
        ("bf16", 0, False, "cpu-bf16"),
        ("auto", 1, True, "cuda-bf16"),
        ("auto", 0.5, False, "cuda-fp32"),
        ("fp32", 1, True, "cuda-fp32"),
        ("tf32", 1, True, "cuda-tf32"),
        ("bf16", 1, False, "cuda-bf16"),
    ],
)
def test_precision_and_gpus_determine_the_numerics(
    make_spec: MakeSpec,
    monkeypatch: pytest.MonkeyPatch,
    precision: str,
    gpus: float,
    numerics: str,
    *,
    fast: bool,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("sclsearch.training.device.fast_bf16", lambda _: fast)
    study = resolve(make_spec(precision=precision), RunOptions(gpus_per_trial=gpus))
    assert study.numerics == numerics
    assert gpus_each(study, RunOptions(gpus_per_trial=gpus)) == gpus
    assert gpus_each(study, RunOptions()) == float(gpus > 0)


def test_tf32_needs_a_gpu(make_spec: MakeSpec) -> None:
    with pytest.raises(SclsearchError, match=r"^--precision tf32: needs a GPU\. Pass auto or fp32"):
        resolve(make_spec(precision="tf32"), RunOptions(gpus_per_trial=0))


def test_an_unusable_gpu_driver_is_reported_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    driver = tmp_path / "version"
    assert unusable_gpu(driver) == ""
    driver.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13\n")
    message = unusable_gpu(driver)
    assert message.startswith("This machine has NVIDIA driver 470.57.02, but torch ")
    assert torch.__version__ in message
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert unusable_gpu(driver) == ""


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine with an NVIDIA GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.version, "cuda", "13.0")


@pytest.mark.skipif(sys.platform != "linux", reason="MPS needs Linux")
@pytest.mark.usefixtures("nvidia")
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


@pytest.mark.usefixtures("nvidia")
@pytest.mark.parametrize(
    ("module", "name", "value"),
    [
        (torch.cuda, "is_available", lambda: False),
        (torch.version, "cuda", None),
        (sys, "platform", "darwin"),
    ],
    ids=["no GPU", "a GPU of AMD", "no Linux"],
)
def test_mps_needs_linux_and_an_nvidia_gpu(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, value: object
) -> None:
    monkeypatch.setattr(module, name, value)
    assert mps_is_running() is None


@pytest.mark.parametrize(
    ("gpus", "at_once", "runs", "advised"),
    [
        (0.5, 2, False, True),
        (0.5, 2, True, False),
        (0.5, 2, None, False),
        (0.5, 1, False, False),
        (1.0, 2, False, False),
        (0.0, 2, False, False),
    ],
)
def test_mps_is_advised_if_seed_runs_share_a_gpu_without_it(
    monkeypatch: pytest.MonkeyPatch, gpus: float, at_once: int, runs: bool | None, advised: bool
) -> None:
    monkeypatch.setattr("sclsearch.ray_backend.start.mps_is_running", lambda: runs)
    notes = mps_advice(gpus, at_once)
    assert [START_MPS in note for note in notes] == [True] * advised
