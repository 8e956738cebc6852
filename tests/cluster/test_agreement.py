"""What several files say is the same in all: versions, settings, who listens, where the token is.

Each rule is shown to catch its mistake.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sclsearch.ray_backend.startup import ENVIRONMENT

if TYPE_CHECKING:
    from tests.cluster.conftest import Caught, Mistake

FOLDER = Path(__file__).parents[2] / "cluster"
FILES = sorted(
    str(path.relative_to(FOLDER))
    for path in FOLDER.rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)
STARTING = [name for name in FILES if name.endswith((".yaml", ".sbatch")) and "mlflow" not in name]
PYTHON = "3.11"


def faults(name: str, text: str, pins: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Returns where a file departs from the others."""
    found = [*_versions(text, pins["ray"]), *_settings(name, text, settings)]
    return [*found, *_listening(name, text), *_secrets(text)]


def _versions(text: str, ray: str) -> Iterator[str]:
    tag = f"sclsearch:{version('sclsearch')}-ray{ray}-py{PYTHON.replace('.', '')}"
    for image in re.findall(r"\bsclsearch:[\w.-]+", text):
        if image != tag:
            yield f"the image must be {tag}, but it is {image}"
    for found in re.findall(r"ray(?:Version: \"|==)([\d.]+)", text):
        if found != ray:
            yield f"Ray must be {ray}, but it is {found}"
    for found in re.findall(r"python:?(3\.\d+)", text):
        if found != PYTHON:
            yield f"Python must be {PYTHON}, but it is {found}"
    if re.search(r":latest\b|ray-wheels", text):
        yield "a version must be named"


def _settings(name: str, text: str, settings: Mapping[str, str]) -> Iterator[str]:
    if name in STARTING and not re.search(r"cluster/env\.sh|sclsearch:\d", text):
        yield "env.sh must be read, or the image used"
    for key, value in settings.items():
        # Where weights lie is the machine's affair.
        if name == "env.sh" or key == "HF_HOME":
            continue
        for given in re.findall(rf"\b{key}[=:]\s*\"?([^\s\"`\\]+)", text):
            if given != value:
                yield f"{key} must be {value}, as env.sh says, but it is {given}"
    if "OMP_NUM_THREADS" in text:
        yield "OMP_NUM_THREADS must be left to Ray, which sets it to a seed run's cores"


def _listening(name: str, text: str) -> Iterator[str]:
    for line in text.splitlines():
        code, _, why = line.partition("#")
        if "0.0.0.0" in code and not (name.startswith("k8s/") and why):
            yield f"nothing may listen everywhere, save in a pod, with the reason: {line.strip()}"


def _secrets(text: str) -> Iterator[str]:
    if re.search(r"(?<!sha256:)\b[0-9a-f]{32,}\b|RAY_AUTH_TOKEN\s*[=:]", text):
        yield "a token must not stand in a file"
    if re.search(r"\bcat\b.*auth_token|get-auth-token(?! --generate)", text):
        yield "a token must not be printed"


@pytest.mark.parametrize("name", FILES)
def test_a_shipped_file_has_no_fault(
    name: str,
    read: Callable[[str], str],
    pins: Mapping[str, str],
    settings: Mapping[str, str],
) -> None:
    assert faults(name, read(name), pins, settings) == []


def test_the_settings_are_those_that_the_driver_takes(settings: Mapping[str, str]) -> None:
    shared = settings.keys() & ENVIRONMENT.keys()
    assert shared
    assert all(settings[name] == ENVIRONMENT[name] for name in shared)


MISTAKES = [
    ("aws-gpu.yaml", "ray2.60.0-py311", "ray2.59.0-py311", "but it is sclsearch:0.1.0-ray2.59.0"),
    ("k8s/mlflow.yaml", "ray2.60.0-py311", "ray2.60.0-py312", "the image must be sclsearch:0.1.0"),
    (
        "k8s/rayjob.yaml",
        "sclsearch:0.1.0-",
        "sclsearch:0.0.9-",
        "the image must be sclsearch:0.1.0",
    ),
    ("k8s/rayjob.yaml", 'rayVersion: "2.60.0"', 'rayVersion: "2.6.0"', "but it is 2.6.0"),
    ("onprem.yaml", "python3.11", "python3.12", "Python must be 3.11"),
    ("Dockerfile", "python:3.11", "python:3.13", "Python must be 3.11"),
    ("Dockerfile", "python:3.11-slim-bookworm", "python:latest", "a version must be named"),
    ("onprem.yaml", "cluster/env.sh", "env", "env.sh must be read"),
    ("slurm/sclsearch.sbatch", "cluster/env.sh", "env", "env.sh must be read"),
    ("onprem.yaml", "&& ray start", "&& RAY_AUTH_MODE=disabled ray start", "RAY_AUTH_MODE must be"),
    ("k8s/rayjob.yaml", "submissionMode", "RAY_AUTH_MODE: off\n  s", "RAY_AUTH_MODE must be token"),
    ("aws-gpu.yaml", "HF_HUB_OFFLINE=1", "RAY_memory_usage_threshold=0.8", "must be 0.95"),
    ("env.sh", "export RAY_AUTH", "export OMP_NUM_THREADS=1 RAY_AUTH", "must be left to Ray"),
    ("aws-gpu.yaml", "127.0.0.1", "0.0.0.0", "nothing may listen everywhere"),
    ("slurm/sclsearch.sbatch", "--min-nodes", "--dashboard-host=0.0.0.0", "nothing may listen"),
    ("k8s/mlflow.yaml", " # a Service", "", "save in a pod, with the reason: - --host=0.0.0.0"),
    ("aws-gpu.yaml", "--ulimit", f"--env RAY_AUTH_TOKEN={'0' * 8}", "must not stand in a file"),
    ("onprem.yaml", "ssh_user: ray", f"ssh_user: {'0a' * 32}", "must not stand in a file"),
    ("onprem.yaml", "chmod 700 ~/.ray", "cat ~/.ray/auth_token", "must not be printed"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=itemgetter(-1))
def test_a_mistake_is_caught(
    mistake: "Mistake", caught: "Caught", pins: Mapping[str, str], settings: Mapping[str, str]
) -> None:
    caught(mistake, lambda text: faults(mistake[0], text, pins, settings))
