"""Test of the container mounts of aws-gpu.yaml with Ray's node updater and a fake docker.

Ray asks docker for the image's environment, takes HOME from it and mounts the token there.
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


class FakeProcessRunner:
    """Records commands and answers those of docker with the environment of an image."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.commands: list[str] = []
        self.running = False

    def check_call(self, command: list[str], *_: Any, **__: Any) -> int:
        self._record(command)
        return 0

    def check_output(self, command: list[str], *_: Any, **__: Any) -> bytes:
        line = self._record(command)
        if ".Config.Env" in line:
            return json.dumps([f"{n}={value}" for n, value in self.environment.items()]).encode()
        if ".State.Running" in line:
            return str(self.running).lower().encode()
        if "printenv HOME" in line:
            return self.environment.get("HOME", "/root").encode()
        return b"{}" if "Mounts" in line else b"x"

    def _record(self, command: list[str]) -> str:
        line = " ".join(command)
        self.commands.append(line)
        self.running = self.running or "docker run" in line
        return line


class Provider(NodeProvider):  # type: ignore[misc]  # Ray has no types
    """One running node with an address."""

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
    """Return the variables that a Dockerfile sets."""
    lines = re.findall(r"^ENV (.*)$", dockerfile.replace("\\\n", " "), flags=re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def start_commands(text: str, image: Mapping[str, str], token: Path, *, head: bool) -> list[str]:
    """Return the commands with which Ray starts a node of a launcher file."""
    config = yaml.safe_load(text)
    runner = FakeProcessRunner(image)
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
        process_runner=runner,
        docker_config=config["docker"],
    )
    updater.do_update()
    return runner.commands


@pytest.fixture
def token(tmp_path: Path) -> Path:
    folder = tmp_path / ".sclsearch-cluster"
    folder.mkdir()
    (folder / "auth_token").write_text("secret")
    return folder / "auth_token"


def token_mounts(commands: list[str]) -> list[str]:
    """Return the paths in the container at which the folder of the token is mounted."""
    (run,) = (line for line in commands if "docker run" in line)
    return re.findall(r"-v \S+:(\S*/\.ray)\b", run)


@pytest.mark.parametrize("head", [True, False])
def test_the_token_is_mounted_in_the_home_of_the_image(
    head: bool, token: Path, read: Callable[[str], str]
) -> None:
    image = environment(read("Dockerfile"))
    commands = start_commands(read("aws-gpu.yaml"), image, token, head=head)
    assert token_mounts(commands) == ["/home/ray/.ray"]
    (setup,) = (line for line in commands if "chmod 600" in line)
    assert "chmod 600 /home/ray/.ray/auth_token" in setup
    assert any("ray start" in line for line in commands)
