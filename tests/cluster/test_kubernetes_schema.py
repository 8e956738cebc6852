"""Kubernetes and KubeRay would know every word of the manifests: each rule by a mistake.

Pods and what is Kubernetes' own are held to its published schemas, KubeRay's wrapper to the part
of its schema that is used here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from tests.cluster.conftest import Pods

RAYJOB, MLFLOW = "k8s/rayjob.yaml", "k8s/mlflow.yaml"
VERSION = "1.37"


def strict(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """Returns the schema of an object with these keys and no other."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


TEXT, COUNT, FLAG = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "boolean"}
POD = {"type": "object"}  # held to Kubernetes' own schema
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
WORKERS = strict(
    {
        "groupName": TEXT,
        "replicas": COUNT,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "rayStartParams": PARAMETERS,
        "template": POD,
    },
    idleTimeoutSeconds=COUNT,
    priority=COUNT,
)
CLUSTER = strict(
    {
        "rayVersion": TEXT,
        "authOptions": strict({"mode": {"const": "token"}}),
        "headGroupSpec": strict({"rayStartParams": PARAMETERS, "template": POD}),
        "workerGroupSpecs": {"type": "array", "items": WORKERS, "minItems": 1},
    },
    enableInTreeAutoscaling=FLAG,
    autoscalerOptions=strict(
        {"version": {"const": "v2"}},
        idleTimeoutSeconds=COUNT,
        upscalingMode={"enum": ["Default", "Conservative", "Aggressive"]},
        securityContext={"type": "object"},  # a container's, held to Kubernetes' own schema
    ),
)
JOB = strict(
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": strict({"name": TEXT}, labels=PARAMETERS),
        "spec": strict(
            {
                "entrypoint": TEXT,
                "rayClusterSpec": CLUSTER,
                # Without it a finished study would keep its GPUs.
                "shutdownAfterJobFinishes": {"const": True},
            },
            submissionMode={"enum": ["K8sJobMode", "HTTPMode", "SidecarMode"]},
            backoffLimit=COUNT,
            ttlSecondsAfterFinished=COUNT,
            submitterPodTemplate=POD,
        ),
    }
)


def faults(text: str, pods: "Pods") -> list[str]:
    """Returns what the schemas do not know in a file of manifests."""
    return [fault for document in yaml.safe_load_all(text) for fault in _faults(document, pods)]


def _faults(document: Any, pods: "Pods") -> Iterator[str]:
    manifests = [document]
    if document["apiVersion"].startswith("ray.io/"):
        wrong = list(Draft202012Validator(JOB).iter_errors(document))
        yield from (f"{fault.json_path}: {fault.message}" for fault in wrong)
        manifests = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods(document)]
    for manifest in manifests:
        try:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield error.message


@pytest.mark.parametrize("name", [RAYJOB, MLFLOW])
def test_a_shipped_file_has_no_fault(name: str, read: Callable[[str], str], pods: "Pods") -> None:
    assert faults(read(name), pods) == []
