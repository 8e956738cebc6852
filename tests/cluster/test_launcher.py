"""Ray's launcher takes the files, and what it lets pass is caught here: each rule by a mistake."""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.cluster.conftest import Caught, Mistake

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


MISTAKES = [
    # What Ray finds.
    (AWS, "max_workers: 10", "max_worker: 10", "'max_worker' was unexpected"),
    (AWS, "head_node_type: head", "head_node_type: heads", "`head_node_type` must be one of"),
    (AWS, "resources: {CPU: 0}", "resources: {CPU: 0.5}", "0.5 is not of type 'integer'"),
    (AWS, "  image: 123456789012", "  head_image: 123456789012", "a container & image name"),
    (
        AWS,
        "min_workers: 0\n    max_workers: 8",
        "min_workers: 11\n    max_workers: 11",
        "smaller than",
    ),
    # What Ray lets pass.
    (AWS, "max_workers: 10\n", "", "max_workers must be given"),
    (AWS, "\nsetup_commands:\n", "\ninitialization_commands:\n", "setup_commands must be given"),
    (AWS, "head_setup_commands: []\n", "", "head_setup_commands must be given"),
    (AWS, "worker_setup_commands: []\n", "", "worker_setup_commands must be given"),
    (AWS, "  region: us", "  regoin: us", "provider.regoin is unknown"),
    (ONPREM, "  head_ip: 1", "  haed_ip: 1\n  head_ip: 1", "provider.haed_ip is unknown"),
    (AWS, "InstanceType: m6i", "InstanceTyp: m6i", "head.InstanceTyp is unknown"),
    (ONPREM, " --constraint constraints.txt", "", "pip must install by constraints.txt"),
    (AWS, "SecurityGroupIds: [sg-EXAMPLE]", "", "gpu_spot.SecurityGroupIds must be given"),
    (AWS, "IamInstanceProfile: {Name: sclsearch-head}", "", "head.IamInstanceProfile must"),
    (AWS, "HttpTokens: required", "HttpTokens: optional", "gpu_spot must ask for IMDSv2"),
    (AWS, "{MarketType: spot}", "{MarketType: spto}", "a group must be bought at a spot price"),
    (AWS, "spot_watch.py aws", "sleep", "must start spot_watch.py"),
    (AWS, "cache_stopped_nodes: false", "cache_stopped_nodes: true", "must be false"),
    (AWS, "resources: {CPU: 0}", "resources: {}", "the head must have CPU: 0"),
    (AWS, "max_workers: 0\n", "max_workers: 1\n", "the head's type must have max_workers: 0"),
    (AWS, "min_workers: 0\n    max_workers: 2", "min_workers: 1\n    max_workers: 2", "idle GPUs"),
    (AWS, "max_workers: 10", "max_workers: 8", "max_workers must be 10"),
    (ONPREM, "max_workers: 2", "max_workers: 3", "max_workers must be 2"),
    *((name, "--num-cpus=0", "", "must have --num-cpus=0") for name in FILES),
    *((name, "=127.0.0.1", "=0.0.0.0", "have --dashboard-host=127.0.0.1") for name in FILES),
    *((name, "--autoscaling-config=", "", "must have --autoscaling-config=") for name in FILES),
    *((name, "~/.ray: ", "~/ray: ", "must bring the token to ~/.ray") for name in FILES),
    *((name, "chmod 600 ~/.ray", "chmod 644 ~/.ray", "the token mode 0600") for name in FILES),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=itemgetter(-1))
def test_a_mistake_is_caught(mistake: "Mistake", caught: "Caught") -> None:
    caught(mistake, faults)
