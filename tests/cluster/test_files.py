"""Tests of the files in cluster/ against published schemas, Ray, env.sh and the pinned versions."""

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from sclsearch.cli import app
from sclsearch.ray_backend.start import ENVIRONMENT

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path.relative_to(ROOT / "cluster").as_posix()
    for path in (ROOT / "cluster").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
KUBERNETES_VERSION = "1.37"
MANIFESTS = ("k8s/rayjob.yaml", "k8s/mlflow.yaml")
LAUNCHER_FILES = ("aws-gpu.yaml", "onprem.yaml")
COMMAND_LISTS = (
    "initialization_commands",
    "setup_commands",
    "head_start_ray_commands",
    "worker_start_ray_commands",
)
SHELLCHECK = str(Path(sys.executable).parent / "shellcheck")

Read = Callable[[str], str]


def pods(node: Any) -> Iterator[Any]:
    """Yield the pod templates of a manifest."""
    if isinstance(node, dict) and "containers" in node.get("spec", ()):
        yield node
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from pods(child)


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_manifests_match_the_published_schemas(name: str, read: Read) -> None:
    for document in yaml.safe_load_all(read(name)):
        manifests = [document]
        if document["kind"] == "RayJob":  # KubeRay publishes no schema for kubernetes_validate
            manifests = [{"apiVersion": "v1", "kind": "Pod", **pod} for pod in pods(document)]
        for manifest in manifests:
            kubernetes_validate.validate(manifest, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_ray_accepts_the_launcher_files(name: str, read: Read) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load(read(name))))


def test_the_kubernetes_entrypoint_uses_options_of_tune(read: Read) -> None:
    (job,) = (doc for doc in yaml.safe_load_all(read(MANIFESTS[0])) if doc["kind"] == "RayJob")
    command = typer.main.get_command(app).commands["tune"]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    words = shlex.split(job["spec"]["entrypoint"])
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("name", FILES)
def test_versions_are_the_pinned_ones(name: str, read: Read) -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    ray = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, flags=re.MULTILINE))["ray"]
    tag = f"sclsearch:{version('sclsearch')}-ray{ray}-py311"
    text = read(name)
    assert set(re.findall(r"\bsclsearch:[\w.-]+", text)) <= {tag}
    assert set(re.findall(r"ray(?:Version: \"|==)([\d.]+)", text)) <= {ray}
    assert set(re.findall(r"python:?(3\.\d+)", text)) <= {"3.11"}


@pytest.mark.parametrize("name", FILES)
def test_no_file_contains_or_prints_a_token(name: str, read: Read) -> None:
    text = read(name)
    assert not re.search(r"(?<!sha256:)\b[0-9a-f]{32,}\b|RAY_AUTH_TOKEN\s*[=:]", text)
    assert not re.search(r"\bcat\b.*auth_token|get-auth-token(?! --generate)", text)


def test_env_sh_agrees_with_the_driver_and_the_image(env_sh: Mapping[str, str], read: Read) -> None:
    shared = env_sh.keys() & ENVIRONMENT.keys()
    assert shared
    assert all(env_sh[name] == ENVIRONMENT[name] for name in shared)
    image = image_environment(read("Dockerfile"))
    assert {name: image.get(name) for name in env_sh} == env_sh


def image_environment(dockerfile: str) -> dict[str, str]:
    """Return the variables that a Dockerfile sets."""
    lines = re.findall(r"^ENV (.*)$", dockerfile.replace("\\\n", " "), flags=re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in line.split())


def test_the_image_copies_files_that_docker_sees_and_extras_that_exist(read: Read) -> None:
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    first, *exceptions = [line for line in ignore if line and not line.startswith("#")]
    assert first == "*"
    assert not {"!.git", "!.venv", "!tests"} & {*exceptions}
    dockerfile = read("Dockerfile")
    copied = {
        source
        for line in re.findall(r"^COPY (.*)$", dockerfile, flags=re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied
    assert all((ROOT / source).exists() and f"!{source}" in exceptions for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", dockerfile)
    assert {*extras.split(",")} <= project["optional-dependencies"].keys()


def shell_errors(script: str) -> str:
    """Return the errors that bash and shellcheck report for a script."""
    # SC1091: shellcheck does not follow the files that a script sources.
    output = ""
    for command in (["bash", "-n"], [SHELLCHECK, "--external-sources", "--exclude=SC1091", "-"]):
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        output += done.stdout + done.stderr
    return output


@pytest.mark.parametrize("name", ["env.sh", "slurm/sclsearch.sbatch"])
def test_shell_files_pass_shellcheck(name: str, read: Read) -> None:
    assert shell_errors(read(name)) == ""


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_launcher_commands_pass_shellcheck(name: str, read: Read) -> None:
    config = yaml.safe_load(read(name))
    commands = [command for key in COMMAND_LISTS for command in config[key]]
    # SC1090: they source a file of the remote machine. SC2154: the launcher sets RAY_HEAD_IP.
    header = "# shellcheck shell=bash disable=SC1090,SC2154,SC2086"
    assert shell_errors("\n".join([header, *commands, ""])) == ""


def test_the_sdist_contains_cluster_files_and_the_wheel_does_not() -> None:
    sdist, wheel = (
        {file.distribution_path for file in builder(str(ROOT)).recurse_included_files()}
        for builder in (SdistBuilder, WheelBuilder)
    )
    assert {f"cluster/{name}" for name in FILES} <= sdist
    names_in_wheel = {Path(path).name for path in wheel}
    assert "__main__.py" in names_in_wheel
    assert not names_in_wheel & {Path(name).name for name in FILES}


def nested(node: Any, key: str) -> Iterator[Any]:
    """Yield the values of a key anywhere in a YAML document."""
    if isinstance(node, dict):
        yield from (value for name, value in node.items() if name == key)
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from nested(child, key)


@pytest.mark.parametrize("name", MANIFESTS)
def test_pods_have_no_root_rights_and_a_network_policy(name: str, read: Read) -> None:
    documents = list(yaml.safe_load_all(read(name)))
    policies = [one["spec"]["podSelector"] for one in documents if one["kind"] == "NetworkPolicy"]
    found = list(pods(documents))
    assert found
    for pod in found:
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert {"matchLabels": pod["metadata"]["labels"]} in policies
        for container in pod["spec"]["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_a_kubernetes_cluster_needs_a_token_and_survives_failed_seed_runs(read: Read) -> None:
    (job,) = (doc for doc in yaml.safe_load_all(read(MANIFESTS[0])) if doc["kind"] == "RayJob")
    cluster, entrypoint = job["spec"]["rayClusterSpec"], job["spec"]["entrypoint"].strip()
    assert cluster["authOptions"] == {"mode": "token"}
    # KubeRay creates a new cluster for every other exit code than 0.
    assert entrypoint.endswith("|| test $? -eq 3")
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert "--allowed-hosts=" in read(MANIFESTS[1])


def test_a_worker_pod_lives_longer_than_its_node_drains(
    env_sh: Mapping[str, str], read: Read
) -> None:
    (grace,) = nested(list(yaml.safe_load_all(read(MANIFESTS[0]))), "terminationGracePeriodSeconds")
    assert grace > int(env_sh["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"])


def test_aws_machines_need_session_tokens_and_spot_notices_are_watched(read: Read) -> None:
    config = yaml.safe_load(read("aws-gpu.yaml"))
    kinds = config["available_node_types"]
    for kind in kinds.values():
        assert kind["node_config"]["MetadataOptions"] == {"HttpTokens": "required"}  # IMDSv2
        assert kind["min_workers"] == 0
    assert any("spot_watch.py aws" in line for line in config["worker_start_ray_commands"])


def test_aws_workers_lack_the_rights_of_the_head_and_only_gpu_spot_is_spot(read: Read) -> None:
    kinds = yaml.safe_load(read("aws-gpu.yaml"))["available_node_types"]
    nodes = {name: kind["node_config"] for name, kind in kinds.items()}
    profiles = {name: node["IamInstanceProfile"]["Name"] for name, node in nodes.items()}
    worker = "sclsearch-worker"
    assert profiles == {"head": "sclsearch-head", "gpu_spot": worker, "gpu_ondemand": worker}
    # Ray's own group, the default, opens port 22 to the internet.
    assert all(node["SecurityGroupIds"] == ["sg-EXAMPLE"] for node in nodes.values())
    markets = {name: node.get("InstanceMarketOptions") for name, node in nodes.items()}
    assert markets == {"head": None, "gpu_spot": {"MarketType": "spot"}, "gpu_ondemand": None}


def test_the_token_is_mounted_in_the_home_of_the_image_for_its_owner_only(read: Read) -> None:
    config = yaml.safe_load(read("aws-gpu.yaml"))
    assert config["file_mounts"] == {"~/.ray": "~/.sclsearch-cluster"}
    # Ray replaces ~ by the HOME of the image.
    assert image_environment(read("Dockerfile"))["HOME"] == "/home/ray"
    assert any("chmod 600 ~/.ray/auth_token" in line for line in config["setup_commands"])


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_the_head_trains_nothing_and_its_dashboard_is_local(name: str, read: Read) -> None:
    (start,) = (
        line
        for line in yaml.safe_load(read(name))["head_start_ray_commands"]
        if "ray start" in line
    )
    assert "--num-cpus=0" in start
    assert "--dashboard-host=127.0.0.1" in start


def test_the_slurm_job_is_requeued_before_its_time_limit(read: Read) -> None:
    script = read("slurm/sclsearch.sbatch")
    assert "#SBATCH --signal=B:USR1@120" in script
    assert "#SBATCH --requeue" in script
    assert re.search(r"^trap 'scontrol requeue .*' USR1$", script, flags=re.MULTILINE)
