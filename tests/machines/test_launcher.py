"""Test of `ray up`, `ray job submit` and `ray down` over ssh with cluster/onprem.yaml."""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.machines.conftest import Search
from tests.machines.machines import RAYLET, ROOT, Machine, Machines
from tests.processes import wait_for

# sshd must be started by its absolute path, which may not be in PATH.
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
PACKAGES = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "rsync": "rsync"}
MISSING = {package for name, package in PACKAGES.items() if shutil.which(name) is None}
MISSING |= set() if SSHD else {"openssh-server"}

pytestmark = [
    pytest.mark.machines,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        bool(MISSING), reason=f"Ray's launcher needs `apt-get install {' '.join(sorted(MISSING))}`"
    ),
]

HEAD, WORKERS, LAPTOP = 4, (5, 6), 7
DASHBOARD = 8265
CLUSTER = f"--address=http://127.0.0.1:{DASHBOARD}"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a folder with a user key, a host key and a token."""
    for name in ("user", "host"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (tmp_path / "token").mkdir(mode=0o700)
    (tmp_path / "token/auth_token").touch(mode=0o600)
    (tmp_path / "token/auth_token").write_text(secrets.token_hex(32), encoding="utf-8")
    return tmp_path


@pytest.fixture
def laptop(machines: Machines, keys: Path) -> Iterator[Machine]:
    """Return a machine that can reach three others by ssh."""
    # Ray and sclsearch are only in the environment that onprem.yaml creates.
    path = f"{Path(str(shutil.which('rsync'))).parent}:/usr/bin:/bin"
    options = {
        "HostKey": keys / "host",
        "AuthorizedKeysFile": keys / "user.pub",
        "StrictModes": "no",  # test folders may have any owner
        "SetEnv": f"PATH={path} PYTHONPATH={ROOT} HF_HUB_OFFLINE=1",
    }
    given = [f"-o{name}={value}" for name, value in options.items()]
    for number in (HEAD, *WORKERS):
        machine = machines.start(number)
        # The launcher brings the token. A login shell would use the PATH of /etc/profile, which may
        # lack rsync.
        machine.run("bash", "-c", f"rm -r ~/.ray && echo 'export PATH={path}' > ~/.bash_profile")
        machine.start(str(SSHD), "-D", "-f/dev/null", *given, log=f"sshd-{machine.name}")
        await_port(machine, 22)
    yield machines.start(LAPTOP)
    machines.kill(HEAD, *WORKERS, LAPTOP)


@pytest.fixture
def config(keys: Path) -> Path:
    """Return onprem.yaml for these machines, on which sclsearch is already installed."""
    config = yaml.safe_load((ROOT / "cluster/onprem.yaml").read_text(encoding="utf-8"))
    workers = [f"10.77.0.{number}" for number in WORKERS]
    config["provider"] |= {"head_ip": f"10.77.0.{HEAD}", "worker_ips": workers}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(keys / "user")}
    config["file_mounts"] = {"~/.ray": str(keys / "token"), "~/sclsearch": str(ROOT)}
    venv, pip = (
        next(n for n, line in enumerate(config["setup_commands"]) if part in line)
        for part in ("-m venv", "pip install")
    )
    config["setup_commands"][venv] = f"ln -sfn {sys.prefix} ~/.sclsearch"
    del config["setup_commands"][pip]
    path = keys / "onprem.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_study_submitted_to_a_launched_cluster_has_the_results_of_one_machine(
    machines: Machines,
    laptop: Machine,
    config: Path,
    keys: Path,
    search_named: Callable[[str], Search],
    undisturbed: Mapping[str, Any],
) -> None:
    search, head = search_named("launched"), machines.running[HEAD]
    own = ("env", f"RAY_AUTH_TOKEN_PATH={keys / 'token/auth_token'}")
    ray_up = ("RAY_UP_enable_autoscaler_v2=0", "ray", "up", "--yes", "--no-config-cache")
    up = laptop.run(*own, *ray_up, str(config))
    assert up.returncode == 0, up.stdout + up.stderr
    head.await_nodes(head, *(machines.running[number] for number in WORKERS))
    laptop.start(*own, "ray", "dashboard", "--no-config-cache", str(config), log="tunnel")
    await_port(laptop, DASHBOARD)
    command = (*search.command, f"--storage={search.storage}")
    job = ("ray", "job", "submit", CLUSTER, "--", "sclsearch", *command, "--address", "auto")
    submitted = laptop.run(*own, *job)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert search.results() == undisturbed
    hosts = {run["environment"]["host"] for run in search.stored().values()}
    assert hosts <= {f"machine{number}" for number in WORKERS}
    token = (keys / "token/auth_token").read_text(encoding="utf-8")
    assert token not in up.stdout + up.stderr + submitted.stdout + submitted.stderr
    down = laptop.run(*own, "ray", "down", "--yes", str(config))
    assert down.returncode == 0, down.stdout + down.stderr
    # `ray down` succeeds even if it finds no Ray on the head.
    assert not head.running(RAYLET), down.stdout + down.stderr
    # The workers' Ray ends only some time after that of the head.
    wait_for(
        "the end of Ray on all machines",
        lambda: not any(machines.running[number].running(RAYLET) for number in (HEAD, *WORKERS)),
    )


def await_port(machine: Machine, port: int) -> None:
    """Wait until a process of a machine listens on a port."""
    connect = f"</dev/tcp/127.0.0.1/{port}"
    wait_for(
        f"port {port} of {machine.name}; see {machine.logs}",
        lambda: machine.run("bash", "-c", connect).returncode == 0,
        seconds=60,
    )
