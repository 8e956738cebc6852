"""What several files say is the same in all: versions, settings, who listens, where the token is.

Each rule is shown to catch its mistake.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from sclsearch.ray_backend.startup import ENVIRONMENT

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
