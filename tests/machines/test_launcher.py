"""Ray's launcher over ssh: a laptop starts a cluster, submits a study, takes the cluster down."""

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
from tests.machines.room import RAYLET, ROOT, Machine, Room, wait_for

# A daemon, which need not be on a user's path, wants to be called by its whole name.
SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
PACKAGES = {"ssh": "openssh-client", "ssh-keygen": "openssh-client", "rsync": "rsync"}
LACKING = {package for name, package in PACKAGES.items() if shutil.which(name) is None}
LACKING |= set() if SSHD else {"openssh-server"}

pytestmark = [
    pytest.mark.machines,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        bool(LACKING), reason=f"Ray's launcher wants `apt-get install {' '.join(sorted(LACKING))}`"
    ),
]

HEAD, WORKERS, LAPTOP = 4, (5, 6), 7
DASHBOARD = 8265
CLUSTER = f"--cluster=http://127.0.0.1:{DASHBOARD}"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Returns a folder with the key of the user, that of the machines, and a token."""
    for name in ("user", "host"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (tmp_path / "token").mkdir(mode=0o700)
    (tmp_path / "token/auth_token").touch(mode=0o600)
    (tmp_path / "token/auth_token").write_text(secrets.token_hex(32), encoding="utf-8")
    return tmp_path


@pytest.fixture
def laptop(room: Room, keys: Path) -> Iterator[Machine]:
    """Returns a machine from which three others are reached by ssh."""
    # Ray and sclsearch are only in the environment that onprem.yaml makes.
    path = f"{Path(str(shutil.which('rsync'))).parent}:/usr/bin:/bin"
    options = {
        "HostKey": keys / "host",
        "AuthorizedKeysFile": keys / "user.pub",
        "StrictModes": "no",  # the folders of tests may be anyone's
        "SetEnv": f"PATH={path} PYTHONPATH={ROOT} HF_HUB_OFFLINE=1",
    }
    given = [f"-o{name}={value}" for name, value in options.items()]
    for number in (HEAD, *WORKERS):
        machine = room.machine(number)
        # The token comes with the launcher. A login would take the PATH of /etc/profile, which may
        # lack rsync.
        machine.run("bash", "-c", f"rm -r ~/.ray && echo 'export PATH={path}' > ~/.bash_profile")
        machine.start(str(SSHD), "-D", "-f/dev/null", *given, log=f"sshd-{machine.name}")
        await_port(machine, 22)
    yield room.machine(LAPTOP)
    room.off(HEAD, *WORKERS, LAPTOP)


@pytest.fixture
def config(keys: Path) -> Path:
    """Returns onprem.yaml for these machines, where sclsearch is installed already."""
    config = yaml.safe_load((ROOT / "cluster/onprem.yaml").read_text(encoding="utf-8"))
    workers = [f"10.77.0.{number}" for number in WORKERS]
    config["provider"] |= {"head_ip": f"10.77.0.{HEAD}", "worker_ips": workers}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(keys / "user")}
    config["file_mounts"] = {"~/.ray": str(keys / "token"), "~/sclsearch": str(ROOT)}
    made, installed = (
        next(n for n, line in enumerate(config["setup_commands"]) if part in line)
        for part in ("-m venv", "pip install")
    )
    config["setup_commands"][made] = f"ln -sfn {sys.prefix} ~/.sclsearch"
    del config["setup_commands"][installed]
    path = keys / "onprem.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_a_study_that_a_laptop_submits_to_a_cluster_that_it_launched(
    room: Room,
    laptop: Machine,
    config: Path,
    keys: Path,
    searching: Callable[[str], Search],
    undisturbed: Mapping[str, Any],
) -> None:
    search, head = searching("launched"), room.on[HEAD]
    own = ("env", f"RAY_AUTH_TOKEN_PATH={keys / 'token/auth_token'}")
    ray_up = ("RAY_UP_enable_autoscaler_v2=0", "ray", "up", "--yes", "--no-config-cache")
    up = laptop.run(*own, *ray_up, str(config))
    assert up.returncode == 0, up.stdout + up.stderr
    head.await_nodes(head, *(room.on[number] for number in WORKERS))
    laptop.start(*own, "ray", "dashboard", "--no-config-cache", str(config), log="tunnel")
    await_port(laptop, DASHBOARD)
    command = (*search.command, f"--storage={search.storage}")
    submitted = laptop.run(*own, "sclsearch", "submit", CLUSTER, "--", *command)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert search.figures() == undisturbed
    hosts = {run["environment"]["host"] for run in search.stored().values()}
    assert hosts <= {f"machine{number}" for number in WORKERS}
    token = (keys / "token/auth_token").read_text(encoding="utf-8")
    assert token not in up.stdout + up.stderr + submitted.stdout + submitted.stderr
    down = laptop.run(*own, "ray", "down", "--yes", str(config))
    assert down.returncode == 0, down.stdout + down.stderr
    # `ray down` ends well even if it finds no Ray on the head.
    assert not head.running(RAYLET), down.stdout + down.stderr
    # A worker's Ray ends a while after it has lost its head.
    wait_for(
        "the end of Ray on all machines",
        lambda: not any(room.on[number].running(RAYLET) for number in (HEAD, *WORKERS)),
    )


def await_port(machine: Machine, port: int) -> None:
    """Waits until something on a machine listens."""
    connect = f"</dev/tcp/127.0.0.1/{port}"
    wait_for(
        f"port {port} of {machine.name}; see {machine.logs}",
        lambda: machine.run("bash", "-c", connect).returncode == 0,
        seconds=60,
    )
