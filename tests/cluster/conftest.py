"""Fixtures for tests of the files in cluster/."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster"


@pytest.fixture(autouse=True)
def _clean_ray_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the user's cluster token and Ray settings from the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def env_sh() -> Mapping[str, str]:
    """Return the variables that env.sh exports into an empty environment."""
    command = ["env", "-i", "bash", "-c", f"source {FOLDER / 'env.sh'} && env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return {name: text for name, text in variables.items() if name not in ("PWD", "SHLVL", "_")}
