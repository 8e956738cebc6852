"""What the manifests say fits together, where no schema looks: each rule by a mistake."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import typer.main
import yaml

from sclsearch.cli import app

if TYPE_CHECKING:
    from tests.cluster.conftest import Pods

RAYJOB, MLFLOW = "k8s/rayjob.yaml", "k8s/mlflow.yaml"
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
# Words that the schemas leave open.
ENUMS = {
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"},
    "operator": {"Exists", "Equal"},
    "accessModes": {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
    "policyTypes": {"Ingress", "Egress"},
}


def faults(text: str, settings: Mapping[str, str], pods: "Pods") -> list[str]:
    """Returns what does not fit together in a file of manifests."""
    documents = list(yaml.safe_load_all(text))
    found = [*_words(documents), *_services(documents), *_policies(documents, pods)]
    for document in documents:
        if document["kind"] == "PersistentVolumeClaim":
            found += _volume(document["spec"])
        found += [fault for pod in pods(document) for fault in _pod(pod)]
        if document["kind"] == "RayJob":
            found += [*_job(document["spec"]), *_ray(document["spec"], settings)]
    return found


def _words(documents: list[Any]) -> Iterator[str]:
    for key, value in _entries(documents):
        for word in value if isinstance(value, list) else [value]:
            if key in ENUMS and word not in ENUMS[key]:
                yield f"{key}: {word} is none of {sorted(ENUMS[key])}"
        if key in ("requests", "limits"):
            for name, amount in value.items():
                if not QUANTITY.fullmatch(str(amount)):
                    yield f"{key}.{name}: {amount} is no quantity"


def _entries(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        yield from node.items()
    if isinstance(node, dict | list):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _entries(part)


def _services(documents: list[Any]) -> Iterator[str]:
    for document in documents:
        if document["kind"] != "Service":
            continue
        name, spec = document["metadata"]["name"], document["spec"]
        if spec.get("type") != "ClusterIP":
            yield "a Service must be ClusterIP"
        hosts = f"{name}:{spec['ports'][0]['port']}"
        if not re.search(rf"--allowed-hosts=(\S+,)?{hosts}\b", str(documents)):
            yield f"MLflow must have {hosts} among --allowed-hosts"


def _policies(documents: list[Any], pods: "Pods") -> Iterator[str]:
    chosen = [
        document["spec"]["podSelector"]["matchLabels"].items()
        for document in documents
        if document["kind"] == "NetworkPolicy"
    ]
    for document in documents:
        for pod in pods(document):
            if not any(labels <= pod["metadata"]["labels"].items() for labels in chosen):
                yield "a NetworkPolicy must choose every pod"


def _pod(pod: Any) -> Iterator[str]:
    spec = pod["spec"]
    if not spec.get("securityContext", {}).get("runAsNonRoot"):
        yield "a pod must have runAsNonRoot"
    for container in spec["containers"]:
        name = container["name"]
        if container.get("securityContext", {}).get("allowPrivilegeEscalation") is not False:
            yield f"{name} must have allowPrivilegeEscalation: false"
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        # Ray reads the limits, the scheduler the requests.
        if requests.get("nvidia.com/gpu") != limits.get("nvidia.com/gpu"):
            yield f"{name} must have as many GPUs in limits as in requests"
        for variable in container.get("env", ()):
            if re.search("TOKEN|SECRET|PASSWORD|KEY", variable["name"]) and "value" in variable:
                yield f"{variable['name']} must come from a Secret"


def _volume(spec: Any) -> Iterator[str]:
    if "ReadWriteMany" in spec["accessModes"] and not spec.get("storageClassName"):
        yield "a volume that many nodes write must name a storageClassName"


def _autoscaler(cluster: Any) -> Iterator[str]:
    """Yield what Pod Security "restricted" refuses of the container that the operator adds."""
    context = cluster.get("autoscalerOptions", {}).get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False:
        yield "the autoscaler must have allowPrivilegeEscalation: false"
    if "ALL" not in context.get("capabilities", {}).get("drop", ()):
        yield "the autoscaler must drop all capabilities"


def _job(spec: Any) -> Iterator[str]:
    words = shlex.split(spec["entrypoint"])
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    known = {option for parameter in commands["tune"].params for option in parameter.opts}
    given = dict(zip(words, [*words[1:], ""], strict=True))
    yield from (f"{word} is no option" for word in words if word[:2] == "--" and word not in known)
    groups = spec["rayClusterSpec"]["workerGroupSpecs"]
    gpus = sum(
        group["maxReplicas"] * int(container["resources"]["limits"]["nvidia.com/gpu"])
        for group in groups
        for container in group["template"]["spec"]["containers"]
    )
    for option, value in (
        ("--address", "auto"),
        ("--gpus-per-trial", "1"),
        ("--concurrency", str(gpus)),
        ("--tracking", "http://mlflow:5000"),
    ):
        if given.get(option) != value:
            yield f"the entrypoint must have {option} {value}"
    if "://" not in given.get("--storage", ""):
        yield "--storage must be one that every pod reaches"
    # KubeRay builds a new cluster at any other exit code than 0.
    if not spec["entrypoint"].rstrip().endswith("|| test $? -eq 3"):
        yield "the entrypoint must end well where seed runs failed for good"


def _ray(spec: Any, settings: Mapping[str, str]) -> Iterator[str]:
    cluster = spec["rayClusterSpec"]
    yield from _autoscaler(cluster)
    if cluster["headGroupSpec"]["rayStartParams"].get("num-cpus") != "0":
        yield "the head must have num-cpus 0"
    for group in cluster["workerGroupSpecs"]:
        if not group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]:
            yield "minReplicas <= replicas <= maxReplicas must hold"
        grace = group["template"]["spec"].get("terminationGracePeriodSeconds", 30)
        if grace <= int(settings["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]):
            yield "terminationGracePeriodSeconds must be longer than a node drains"
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        for container in group["template"]["spec"]["containers"]:
            mounts = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
            if settings["HF_HOME"] not in mounts:
                yield f"{container['name']} must have the weights at {settings['HF_HOME']}"


@pytest.mark.parametrize("name", [RAYJOB, MLFLOW])
def test_a_shipped_file_has_no_fault(
    name: str, read: Callable[[str], str], settings: Mapping[str, str], pods: "Pods"
) -> None:
    assert faults(read(name), settings, pods) == []
