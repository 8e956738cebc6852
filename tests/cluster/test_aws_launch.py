"""The AWS file launches machines at an AWS that moto stands in for, up to where ssh would begin.

Ray's own bootstrap and node provider do it; what moto does not have, an image in AWS's list and
the session manager, is put in or left out.
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
    """Yields EC2 at moto's AWS, with what README tells to make beforehand."""
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


def _launched(text: str, aws: Any) -> Iterator[tuple[str, Any]]:
    """Yields each type of machine and one machine of it, launched."""
    from ray.autoscaler import tags
    from ray.autoscaler._private.commands import _bootstrap_config
    from ray.autoscaler._private.providers import _get_node_provider

    subnet = next(
        subnet for subnet in aws.subnets.all() if subnet.availability_zone == f"{REGION}a"
    )
    group = aws.create_security_group(
        GroupName="sclsearch", Description="itself", VpcId=subnet.vpc_id
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
        wanted = {
            tags.TAG_RAY_NODE_KIND: role,
            tags.TAG_RAY_NODE_NAME: name,
            tags.TAG_RAY_USER_NODE_TYPE: name,
            tags.TAG_RAY_LAUNCH_CONFIG: "tested",
        }
        (made,) = provider.create_node(kind["node_config"], wanted, 1).values()
        made.reload()
        yield name, {**made.meta.data, "resources": kind["resources"]}


def test_ray_launches_every_type_of_machine(aws: Any, read: Callable[[str], str]) -> None:
    machines = dict(_launched(read("aws-gpu.yaml"), aws))
    # The launcher asks AWS what a type has; of one that is not sold there it knows nothing.
    assert machines["head"]["resources"]["CPU"] == 0
    assert machines["gpu_spot"]["resources"]["GPU"] == 1
    assert machines["gpu_spot"]["InstanceLifecycle"] == "spot"
    assert "InstanceLifecycle" not in machines["gpu_ondemand"]
    profiles = {name: made["IamInstanceProfile"]["Arn"] for name, made in machines.items()}
    assert profiles["head"].endswith("/sclsearch-head")
    assert profiles["gpu_spot"].endswith("/sclsearch-worker")
    groups = {group["GroupName"] for made in machines.values() for group in made["SecurityGroups"]}
    assert groups == {"sclsearch"}
