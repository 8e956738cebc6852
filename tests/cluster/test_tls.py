"""Tests of a Ray cluster with the certificates of tls.sh: who may join it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from tests.cluster.conftest import FOLDER
from tests.processes import PATIENCE, Processes, free_port, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

JOIN = """
import sys
from sclsearch.ray_backend.start import check_accelerator, fitting, started_ray

with started_ray(sys.argv[1]):
    print(fitting(1, 0), fitting(1, 0, "L4"))
    check_accelerator("L4")
    check_accelerator("L5")
"""
Environment = Callable[[Path], dict[str, str]]


@pytest.fixture(scope="module")
def environment(processes: Processes) -> Environment:
    """Return a function that creates certificates in a folder, and returns what env.sh exports."""

    def environment(folder: Path) -> dict[str, str]:
        folder.mkdir()
        tls = str(FOLDER / "tls.sh")
        subprocess.run([tls, "authority", str(folder)], check=True)
        subprocess.run([tls, "machine", str(folder)], check=True)
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        source = f"source {FOLDER / 'env.sh'}; export RAY_AUTH_MODE=disabled; env"
        inherited = {one: text for one, text in os.environ.items() if not one.startswith("RAY_")}
        variables = {**inherited, **processes.environment, "RAY_TLS_FOLDER": str(folder)}
        done = subprocess.run(
            ["bash", "-c", source], env=variables, capture_output=True, text=True, check=True
        )
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    return environment


def test_only_processes_with_a_certificate_of_the_cluster_can_join_it(
    environment: Environment, tmp_path: Path
) -> None:
    grpc = pytest.importorskip("grpc")
    own, foreign = environment(tmp_path / "own"), environment(tmp_path / "foreign")
    port, host = free_port(), ray.util.get_node_ip_address()
    head = (
        *("start", "--head", "--block", f"--port={port}", f"--node-ip-address={host}"),
        *("--num-cpus=2", '--resources={"accelerator_type:L4": 1}', "--include-dashboard=false"),
        *("--object-store-memory=100000000", "--disable-usage-stats"),
    )
    command, quiet = str(Path(sys.executable).parent / "ray"), subprocess.DEVNULL
    subprocess.Popen([command, *head], env=own, stdout=quiet, stderr=quiet)

    def reached(*certificate: str, authority: Path = tmp_path / "own") -> bool:
        files = [(authority / "ca.crt").read_bytes()]
        files += [(tmp_path / name).read_bytes() for name in reversed(certificate)]
        credentials = grpc.ssl_channel_credentials(*files)
        with grpc.secure_channel(f"{host}:{port}", credentials) as channel:
            try:
                grpc.channel_ready_future(channel).result(10)
            except grpc.FutureTimeoutError:
                return False
        return True

    wait_for("the head", lambda: reached("own/ray.crt", "own/ray.key"))
    assert not reached()
    assert not reached("foreign/ray.crt", "foreign/ray.key")
    assert foreign["RAY_TLS_CA_CERT"] == str(tmp_path / "foreign" / "ca.crt")
    done = subprocess.run(
        [sys.executable, "-c", JOIN, f"{host}:{port}"],
        env=own,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    found, *_, error = done.stderr.splitlines()
    assert found == "2 2"
    assert error.endswith("no node has this accelerator. Did you mean 'L4'? Known: L4.")
