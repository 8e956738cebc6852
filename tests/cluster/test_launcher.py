"""Ray's launcher takes the files, and what it lets pass is caught here: each rule by a mistake."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import yaml

AWS, ONPREM = "aws-gpu.yaml", "onprem.yaml"
FILES = (AWS, ONPREM)
# Where one is missing, Ray takes a default of its own: 2 workers, a nightly build, an open port.
EXPLICIT = (
    "max_workers",
    "setup_commands",
    "head_setup_commands",
    "worker_setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
    "file_mounts",
)
PROVIDERS = {
    "aws": {"type", "region", "availability_zone", "use_internal_ips", "cache_stopped_nodes"},
    "local": {"type", "head_ip", "worker_ips"},
}
MACHINE = {
    "InstanceType",
    "ImageId",
    "SecurityGroupIds",
    "SubnetIds",
    "IamInstanceProfile",
    "MetadataOptions",
    "BlockDeviceMappings",
    "InstanceMarketOptions",
}


def faults(text: str) -> list[str]:
    """Returns what is wrong with a launcher's file, by Ray's schema and by our rules."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load(text)
    try:
        validate_config(prepare_config(config))
    except Exception as error:  # Ray raises what it pleases
        return [str(error)]
    rules = (_explicit, _token, _installed, _head, _workers, _aws)
    return [fault for rule in rules for fault in rule(config)]


def _explicit(config: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} must be given" for name in EXPLICIT if name not in config)
    known = PROVIDERS[config["provider"]["type"]]
    for name in sorted(set(config["provider"]) - known):
        yield f"provider.{name} is unknown"


def _token(config: Mapping[str, Any]) -> Iterator[str]:
    if "~/.ray" not in config.get("file_mounts", {}):
        yield "file_mounts must bring the token to ~/.ray"
    if not any("chmod 600 ~/.ray/auth_token" in line for line in config.get("setup_commands", ())):
        yield "setup_commands must give the token mode 0600"


def _installed(config: Mapping[str, Any]) -> Iterator[str]:
    for line in config.get("setup_commands", ()):
        if "pip install" in line and "--constraint constraints.txt" not in line:
            yield "pip must install by constraints.txt"


def _head(config: Mapping[str, Any]) -> Iterator[str]:
    start = " ".join(config.get("head_start_ray_commands", ()))
    for flag in ("--num-cpus=0", "--dashboard-host=127.0.0.1", "--autoscaling-config="):
        if flag not in start:
            yield f"head_start_ray_commands must have {flag}"
    if "available_node_types" in config:
        head = config["available_node_types"][config["head_node_type"]]
        if head["resources"].get("CPU") != 0:
            yield "the head must have CPU: 0"
        if head.get("max_workers") != 0:
            yield "the head's type must have max_workers: 0"


def _workers(config: Mapping[str, Any]) -> Iterator[str]:
    types = dict(config.get("available_node_types", {}))
    types.pop(config.get("head_node_type"), None)
    most = sum(kind["max_workers"] for kind in types.values())
    if not types:
        most = len(config["provider"]["worker_ips"])
    if config.get("max_workers") != most:
        yield f"max_workers must be {most}, the sum of all"
    if any(kind["min_workers"] for kind in types.values()):
        yield "min_workers must be 0: idle GPUs cost money"


def _aws(config: Mapping[str, Any]) -> Iterator[str]:
    if config["provider"]["type"] != "aws":
        return
    if config["provider"].get("cache_stopped_nodes") is not False:
        yield "cache_stopped_nodes must be false"
    for name, kind in config["available_node_types"].items():
        node = kind["node_config"]
        yield from (f"{name}.{key} is unknown" for key in sorted(set(node) - MACHINE))
        yield from (
            f"{name}.{key} must be given"
            for key in sorted(MACHINE - {"InstanceMarketOptions"} - set(node))
        )
        if node.get("MetadataOptions") != {"HttpTokens": "required"}:
            yield f"{name} must ask for IMDSv2"
    spot = [
        name
        for name, kind in config["available_node_types"].items()
        if kind["node_config"].get("InstanceMarketOptions") == {"MarketType": "spot"}
    ]
    watched = any("spot_watch.py aws" in line for line in config["worker_start_ray_commands"])
    if not spot:
        yield "a group must be bought at a spot price"
    elif not watched:
        yield "worker_start_ray_commands must start spot_watch.py"


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_file_has_no_fault(name: str, read: Callable[[str], str]) -> None:
    assert faults(read(name)) == []
