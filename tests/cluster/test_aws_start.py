"""Ray's own updater starts the AWS file's machines; ssh and docker are recorded, not run.

Docker's answer of the image's environment is the Dockerfile's: Ray takes the container's home from
there, and mounts the token in it.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.updater import NodeUpdater
from ray.autoscaler.node_provider import NodeProvider

ROOT = Path(__file__).parents[2]


class Machine:
    """A machine that records commands, and answers as docker would with the image's settings."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.commands: list[str] = []
        self.runs = False

    def check_call(self, command: list[str], *_: Any, **__: Any) -> int:
        self._record(command)
        return 0

    def check_output(self, command: list[str], *_: Any, **__: Any) -> bytes:
        told = self._record(command)
        if ".Config.Env" in told:
            return json.dumps([f"{n}={value}" for n, value in self.environment.items()]).encode()
        if ".State.Running" in told:
            return str(self.runs).lower().encode()
        if "printenv HOME" in told:
            return self.environment.get("HOME", "/root").encode()
        return b"{}" if "Mounts" in told else b"x"

    def _record(self, command: list[str]) -> str:
        told = " ".join(command)
        self.commands.append(told)
        self.runs = self.runs or "docker run" in told
        return told


class Provider(NodeProvider):  # type: ignore[misc]  # Ray has no types
    """One machine that is up and has an address."""

    def __init__(self) -> None:
        super().__init__({"type": "aws", "use_internal_ips": True}, "sclsearch")

    def node_tags(self, node_id: str) -> dict[str, str]:
        return {}

    def set_node_tags(self, node_id: str, tags: dict[str, str]) -> None:
        pass

    def internal_ip(self, node_id: str) -> str:
        return "10.0.0.1"

    def non_terminated_nodes(self, tag_filters: Any) -> list[str]:
        return ["i-1"]

    def is_terminated(self, node_id: str) -> bool:
        return False

    def is_running(self, node_id: str) -> bool:
        return True


def environment(dockerfile: str) -> dict[str, str]:
    """Return what the Dockerfile sets by ENV."""
    joined = dockerfile.replace("\\\n", " ")
    found = re.findall(r"^ENV (.*)$", joined, flags=re.MULTILINE)
    return dict(pair.split("=", 1) for line in found for pair in line.split())


def started(text: str, settings: Mapping[str, str], token: Path, *, head: bool) -> list[str]:
    """Return the commands by which Ray starts a machine of a cluster file."""
    config = yaml.safe_load(text)
    machine = Machine(settings)
    side = "head" if head else "worker"
    mounts = {mount: str(token.parent) for mount in config["file_mounts"]}
    updater = NodeUpdater(
        node_id="i-1",
        provider_config={"type": "local", "use_internal_ips": True},
        provider=Provider(),
        auth_config=config["auth"],
        cluster_name="sclsearch",
        file_mounts=mounts,
        initialization_commands=config["initialization_commands"],
        setup_commands=config["setup_commands"],
        ray_start_commands=config[f"{side}_start_ray_commands"],
        runtime_hash="0",
        file_mounts_contents_hash="0",
        is_head_node=head,
        process_runner=machine,
        docker_config=config["docker"],
    )
    updater.do_update()
    return machine.commands


@pytest.fixture
def token(tmp_path: Path) -> Path:
    folder = tmp_path / ".sclsearch-cluster"
    folder.mkdir()
    (folder / "auth_token").write_text("secret")
    return folder / "auth_token"


def mounted(commands: list[str]) -> list[str]:
    """Return where the container has the token's folder."""
    (run,) = (line for line in commands if "docker run" in line)
    return re.findall(r"-v \S+:(\S*/\.ray)\b", run)


@pytest.mark.parametrize("head", [True, False])
def test_the_token_is_mounted_where_ray_reads_it(
    head: bool, token: Path, read: Callable[[str], str]
) -> None:
    settings = environment(read("Dockerfile"))
    commands = started(read("aws-gpu.yaml"), settings, token, head=head)
    assert mounted(commands) == ["/home/ray/.ray"]
    (setup,) = (line for line in commands if "chmod 600" in line)
    assert "chmod 600 /home/ray/.ray/auth_token" in setup
    assert any("ray start" in line for line in commands)
    without = {name: value for name, value in settings.items() if name != "HOME"}
    (wrong,) = mounted(started(read("aws-gpu.yaml"), without, token, head=head))
    assert wrong == "/root/.ray"


def test_usage_statistics_stay_off(read: Callable[[str], str]) -> None:
    assert environment(read("Dockerfile"))["RAY_USAGE_STATS_ENABLED"] == "0"
    assert "RAY_USAGE_STATS_ENABLED=0 ray up" in read("README.md")


def test_the_image_is_built_of_what_it_copies_alone() -> None:
    first, *named = [
        line
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert first == "*"
    copied = re.findall(r"^COPY (\S+)", (ROOT / "cluster/Dockerfile").read_text(), re.MULTILINE)
    assert {f"!{name}" for name in copied} <= {*named}
    assert not {"!.git", "!.venv", "!tests"} & {*named}
