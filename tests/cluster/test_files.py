"""Tests of the files in cluster/ against schemas, Ray, env.sh, versions and the options of tune."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml

from sclsearch.cli import app
from sclsearch.ray_backend.start import ENVIRONMENT
from tests.cluster.conftest import FOLDER, ROOT

FILES = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in FOLDER.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
KUBERNETES_VERSION = "1.37"
K8S = FOLDER / "k8s"
BASE, RAYJOB, *COMPONENTS = ("base", "rayjob", "nvme", "kueue", "postgres")
AWS, GCP, ONPREM = LAUNCHER_FILES = ("aws-gpu.yaml", "gcp-gpu.yaml", "onprem.yaml")
# Fields of KubeRay 1.7, which publishes no schema for kubernetes_validate.
RAY_FIELDS = {
    "RayJob": "entrypoint submissionMode backoffLimit shutdownAfterJobFinishes rayClusterSpec "
    "ttlSecondsAfterFinished submitterPodTemplate",
    "RayCluster": "rayVersion authOptions enableInTreeAutoscaling autoscalerOptions headGroupSpec "
    "workerGroupSpecs",
    "headGroupSpec": "rayStartParams template",
    "workerGroupSpecs": "groupName replicas minReplicas maxReplicas rayStartParams template",
}
SHELLCHECK = str(Path(sys.executable).parent / "shellcheck")


def read(name: str) -> str:
    """Return the text of a file of cluster/."""
    return (FOLDER / name).read_text(encoding="utf-8")


def tune_options() -> set[str]:
    """Return the options of `tune`."""
    command = typer.main.get_command(app).commands["tune"]  # type: ignore[attr-defined]
    return {option for parameter in command.params for option in parameter.opts}


def having(key: str, node: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings of a YAML document that have a key."""
    if isinstance(node, dict) and key in node:
        yield node
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from having(key, child)


def pods(document: Any) -> list[dict[str, Any]]:
    """Return the pod templates of a manifest."""
    return [node for node in having("spec", document) if "containers" in node["spec"]]


@cache
def built(*names: str) -> list[dict[str, Any]]:
    """Return the objects of an overlay of k8s/, with components; skip the test without kubectl."""
    if not shutil.which("kubectl"):
        pytest.skip("the test needs kubectl, which contains Kustomize")
    overlay, *components = names
    with TemporaryDirectory() as folder:
        file = shutil.copytree(K8S, Path(folder, "k8s")) / overlay / "kustomization.yaml"
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        config["components"] = [f"../{one}" for one in components]
        file.write_text(yaml.safe_dump(config), encoding="utf-8")
        command = ["kubectl", "kustomize", str(file.parent)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def ray_cluster(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the specification of the Ray cluster, whose fields are those of KubeRay."""
    (owner,) = (one for one in documents if one["apiVersion"] == "ray.io/v1")
    spec: dict[str, Any] = owner["spec"]
    assert spec.keys() <= {*RAY_FIELDS[owner["kind"]].split()}
    spec = spec.get("rayClusterSpec", spec)
    groups = {"RayCluster": [spec], "headGroupSpec": [spec["headGroupSpec"]]}
    for name, nodes in {**groups, "workerGroupSpecs": spec["workerGroupSpecs"]}.items():
        for node in nodes:
            assert node.keys() <= {*RAY_FIELDS[name].split()}
            assert all(isinstance(one, str) for one in node.get("rayStartParams", {}).values())
    return spec


@pytest.mark.parametrize("names", [(BASE,), (RAYJOB,), (RAYJOB, *COMPONENTS), (BASE, *COMPONENTS)])
def test_manifests_match_the_published_schemas_and_pods_have_no_root_rights_and_a_policy(
    names: tuple[str, ...],
) -> None:
    documents = built(*names)
    for document in documents:
        manifests = [document]
        if document["apiVersion"] == "ray.io/v1":
            manifests = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods(document)]
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)
    policies = [one["spec"]["podSelector"] for one in documents if one["kind"] == "NetworkPolicy"]
    assert len(pods(documents)) >= 3
    for pod in pods(documents):
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert {"matchLabels": pod["metadata"]["labels"]} in policies
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
    mounted = {
        one["persistentVolumeClaim"]["claimName"]
        for one in having("persistentVolumeClaim", documents)
    }
    claims = {
        one["metadata"]["name"] for one in documents if one["kind"] == "PersistentVolumeClaim"
    }
    assert mounted == claims


def test_a_kubernetes_cluster_needs_a_token_drains_its_nodes_and_survives_failed_seed_runs(
    env_sh: Mapping[str, str],
) -> None:
    (job,) = (doc for doc in built(RAYJOB) if doc["kind"] == "RayJob")
    cluster, entrypoint = ray_cluster([job]), job["spec"]["entrypoint"].strip()
    assert cluster == ray_cluster(built(BASE))
    assert {word for word in shlex.split(entrypoint) if word.startswith("--")} <= tune_options()
    # KubeRay creates a new cluster for every other exit code than 0.
    assert entrypoint.endswith("|| test $? -eq 3")
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert "--allowed-hosts=" in read("k8s/base/mlflow.yaml")
    (pod,) = having("terminationGracePeriodSeconds", job)
    drained = int(env_sh["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])
    assert pod["terminationGracePeriodSeconds"] > drained


def test_components_fix_the_size_for_kueue_use_local_disks_and_a_database_server() -> None:
    documents = built(RAYJOB, *COMPONENTS)
    (owner,) = (one for one in documents if one["apiVersion"] == "ray.io/v1")
    assert owner["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    cluster = ray_cluster(documents)
    (worker,) = cluster["workerGroupSpecs"]
    assert worker["minReplicas"] == worker["replicas"] == worker["maxReplicas"]
    assert cluster["enableInTreeAutoscaling"] is False
    for group in (worker, cluster["headGroupSpec"]):
        (volume,) = group["template"]["spec"]["volumes"]
        assert volume.keys() == {"name", "emptyDir"}
    assert "sqlite" not in str(documents)


@pytest.mark.parametrize("name", FILES)
def test_versions_are_the_pinned_ones_and_no_file_contains_or_prints_a_token(name: str) -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    ray = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, flags=re.MULTILINE))["ray"]
    tag = f"sclsearch:{version('sclsearch')}-ray{ray}-py311"
    text = read(name)
    assert set(re.findall(r"\bsclsearch:[\w.-]+", text)) <= {tag}
    assert {f"sclsearch:{one}" for one in re.findall(r"newTag: (\S+)", text)} <= {tag}
    assert set(re.findall(r"ray(?:Version: \"|==)([\d.]+)", text)) <= {ray}
    assert set(re.findall(r"python:?(3\.\d+)", text)) <= {"3.11"}
    assert not re.search(r"(?<!sha256:)\b[0-9a-f]{32,}\b|RAY_AUTH_TOKEN\s*[=:]", text)
    assert not re.search(r"\bcat\b.*auth_token|get-auth-token(?! --generate)", text)


def image_environment(dockerfile: str) -> dict[str, str]:
    """Return the variables that a Dockerfile sets."""
    lines = re.findall(r"^ENV (.*)$", dockerfile.replace("\\\n", " "), flags=re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_env_sh_agrees_with_the_driver_and_the_image(env_sh: Mapping[str, str]) -> None:
    shared = env_sh.keys() & ENVIRONMENT.keys()
    assert {name: env_sh[name] for name in shared} == {name: ENVIRONMENT[name] for name in shared}
    image = image_environment(read("Dockerfile"))
    assert {name: image.get(name) for name in env_sh} == env_sh


@pytest.mark.parametrize("name", ["env.sh", "tls.sh", "slurm/sclsearch.sbatch", *LAUNCHER_FILES])
def test_shell_commands_pass_shellcheck(name: str) -> None:
    script = read(name)
    if name in LAUNCHER_FILES:
        config = yaml.safe_load(script)
        # SC1090: they source a file of the remote machine. SC2154: the launcher sets RAY_HEAD_IP.
        header = "# shellcheck shell=bash disable=SC1090,SC2154,SC2086"
        commands = [line for key in config if key.endswith("_commands") for line in config[key]]
        script = "\n".join([header, *commands, ""])
    # SC1091: shellcheck does not follow the files that a script sources.
    command = [SHELLCHECK, "--external-sources", "--exclude=SC1091", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_ray_accepts_launcher_files_whose_head_trains_nothing_and_is_local(name: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load(read(name))
    (start,) = (line for line in config["head_start_ray_commands"] if "ray start" in line)
    assert "--num-cpus=0" in start
    assert "--dashboard-host=127.0.0.1" in start
    validate_config(prepare_config(config))


def test_aws_workers_have_few_rights_spot_notices_and_a_token_that_only_its_owner_reads() -> None:
    config = yaml.safe_load(read(AWS))
    kinds = config["available_node_types"]
    nodes = {name: kind["node_config"] for name, kind in kinds.items()}
    assert all(kind["min_workers"] == 0 for kind in kinds.values())
    assert all(node["MetadataOptions"] == {"HttpTokens": "required"} for node in nodes.values())
    # Ray's own group, the default, opens port 22 to the internet.
    assert all(node["SecurityGroupIds"] == ["sg-EXAMPLE"] for node in nodes.values())
    profiles = {name: node["IamInstanceProfile"]["Name"] for name, node in nodes.items()}
    worker = "sclsearch-worker"
    assert profiles == {"head": "sclsearch-head", "gpu_spot": worker, "gpu_ondemand": worker}
    assert nodes["gpu_spot"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert any("spot_watch.py aws" in line for line in config["worker_start_ray_commands"])
    assert config["file_mounts"] == {"~/.ray": "~/.sclsearch-cluster"}
    assert any("chmod 600 ~/.ray/auth_token" in line for line in config["setup_commands"])
    # Ray replaces ~ by the HOME of the image.
    assert image_environment(read("Dockerfile"))["HOME"] == "/home/ray"


BLOCKS = re.findall(r"```sh\n(.*?)```", read("README.md"), flags=re.DOTALL)


def test_each_kind_of_cluster_has_a_study_command_and_submitted_ones_request_a_gpu() -> None:
    lines = [line for block in BLOCKS for line in block.splitlines()]
    commands = [line for line in lines if re.search(r"\btune\b|sbatch", line)]
    assert len(commands) >= 4
    for line in commands:
        words = shlex.split(re.split(r"\btune|sclsearch\.sbatch", line)[-1])
        options = {word for word in words if word.startswith("--")}
        assert {"--method", "--task"} <= options <= tune_options()
        if line.startswith("ray job submit"):
            assert {"--gpus-per-trial", "--concurrency"} <= options
            assert line.endswith("--address auto")


def test_token_commands_create_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    block = next(block for block in BLOCKS if "auth_token" in block)
    script = f'{block}\necho "$RAY_AUTH_MODE $RAY_AUTH_TOKEN_PATH"; umask'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    token = tmp_path / ".sclsearch-cluster" / "auth_token"
    mode, path, mask = done.stdout.split()
    assert (mode, path) == ("token", str(token))
    assert mask != "0077", "the umask of the shell must not change"
    assert token.stat().st_mode & 0o777 == 0o600
    assert token.parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch("[0-9a-f]{64}", token.read_text(encoding="utf-8"))
    assert token.read_text(encoding="utf-8") not in done.stdout + done.stderr
