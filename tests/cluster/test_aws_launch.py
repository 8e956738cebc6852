"""Tests of aws-gpu.yaml with Ray's bootstrap and node provider against moto's AWS, without ssh.

moto lacks the AMI alias and the session manager: the AMI is replaced, the session manager unused.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow
REGION = "us-west-2"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Yield moto's EC2 with the instance profiles that the README creates."""
    moto = pytest.importorskip("moto")
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    (tmp_path / ".ssh").mkdir()
    with moto.mock_aws():
        identity = boto3.client("iam")
        for name in ("sclsearch-head", "sclsearch-worker"):
            identity.create_instance_profile(InstanceProfileName=name)
        yield boto3.resource("ec2", region_name=REGION)


def launch(text: str, aws: Any) -> Iterator[tuple[str, Any]]:
    """Launch one instance of each node type and yield its name and description."""
    from ray.autoscaler import tags
    from ray.autoscaler._private.commands import _bootstrap_config
    from ray.autoscaler._private.providers import _get_node_provider

    subnet = next(
        subnet for subnet in aws.subnets.all() if subnet.availability_zone == f"{REGION}a"
    )
    group = aws.create_security_group(
        GroupName="sclsearch", Description="test", VpcId=subnet.vpc_id
    )
    image = aws.meta.client.describe_images()["Images"][0]["ImageId"]
    text = text.replace("sg-EXAMPLE", group.id).replace("subnet-EXAMPLE", subnet.id)
    config = yaml.safe_load(text)
    for kind in config["available_node_types"].values():
        kind["node_config"]["ImageId"] = image
    ready = _bootstrap_config(config, no_config_cache=True)
    provider = _get_node_provider(ready["provider"], ready["cluster_name"])
    for name, kind in ready["available_node_types"].items():
        role = tags.NODE_KIND_HEAD if name == "head" else tags.NODE_KIND_WORKER
        node_tags = {
            tags.TAG_RAY_NODE_KIND: role,
            tags.TAG_RAY_NODE_NAME: name,
            tags.TAG_RAY_USER_NODE_TYPE: name,
            tags.TAG_RAY_LAUNCH_CONFIG: "tested",
        }
        (instance,) = provider.create_node(kind["node_config"], node_tags, 1).values()
        instance.reload()
        yield name, {**instance.meta.data, "resources": kind["resources"]}


def test_ray_launches_every_node_type(aws: Any, read: Callable[[str], str]) -> None:
    nodes = dict(launch(read("aws-gpu.yaml"), aws))
    # Ray fills in the resources of an instance type from what EC2 reports.
    assert nodes["head"]["resources"]["CPU"] == 0
    assert nodes["gpu_spot"]["resources"]["GPU"] == 1
    assert nodes["gpu_spot"]["InstanceLifecycle"] == "spot"
    assert "InstanceLifecycle" not in nodes["gpu_ondemand"]
    profiles = {name: node["IamInstanceProfile"]["Arn"] for name, node in nodes.items()}
    assert profiles["head"].endswith("/sclsearch-head")
    assert profiles["gpu_spot"].endswith("/sclsearch-worker")
    groups = {group["GroupName"] for node in nodes.values() for group in node["SecurityGroups"]}
    assert groups == {"sclsearch"}
