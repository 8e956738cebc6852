"""Test of a Ray cluster with the certificates of tls.sh."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tests.cluster.conftest import FOLDER
from tests.processes import PATIENCE, Processes, free_port, wait_for

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

RAY = (
    "start --head --block --num-cpus=2 --include-dashboard=false --object-store-memory=100000000 "
    """--disable-usage-stats --resources='{"accelerator_type:L4": 1}'"""
)
JOIN = """
from sclsearch.ray_backend.start import check_accelerator, fitting, started_ray
with started_ray("ADDRESS"):
    print(fitting(1, 0), fitting(1, 0, "L4"))
    check_accelerator("L4")
    check_accelerator("L5")
"""


def test_only_processes_with_a_certificate_of_the_cluster_can_join_it(
    processes: Processes, tmp_path: Path
) -> None:
    grpc = pytest.importorskip("grpc")
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    for folder in (own, foreign):
        folder.mkdir()
        for role in ("authority", "machine"):
            subprocess.run([str(FOLDER / "tls.sh"), role, str(folder)], check=True)
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    host, port = ray.util.get_node_ip_address(), free_port()
    variables = {**os.environ, **processes.environment}

    def start(command: str, certificate: Path = own) -> "subprocess.Popen[str]":
        script = f"source {FOLDER / 'env.sh'}; RAY_AUTH_MODE=disabled exec {command}"
        pipe = subprocess.PIPE
        given = variables | {"RAY_TLS_FOLDER": str(certificate)}
        return subprocess.Popen(["bash", "-c", script], env=given, stderr=pipe, text=True)

    def reached(*certificate: Path) -> bool:
        files = [(own / "ca.crt").read_bytes(), *(one.read_bytes() for one in certificate)]
        with grpc.secure_channel(f"{host}:{port}", grpc.ssl_channel_credentials(*files)) as channel:
            try:
                grpc.channel_ready_future(channel).result(10)
            except grpc.FutureTimeoutError:
                return False
        return True

    head = start(
        f"{Path(sys.executable).parent / 'ray'} {RAY} --port={port} --node-ip-address={host}"
    )
    wait_for("the head", lambda: reached(own / "ray.key", own / "ray.crt"))
    assert not reached()
    assert not reached(foreign / "ray.key", foreign / "ray.crt")
    code = JOIN.replace("ADDRESS", f"{host}:{port}")
    _, found = start(f"{sys.executable} -c '{code}'").communicate(timeout=PATIENCE)
    assert found.startswith("2 2\n"), found
    assert "no node has this accelerator. Did you mean 'L4'? Known: L4." in found
    for certificate in (foreign, tmp_path):  # the second has none
        refused = start(f"{sys.executable} -c '{code}'", certificate)
        _, found = refused.communicate(timeout=PATIENCE)  # Ray alone would wait longer
        assert "or it rejects this machine's token or certificate" in found
    head.terminate()
    head.communicate()
