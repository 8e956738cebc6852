"""Fixtures of the tests of the folder cluster/: its files, pinned versions and settings."""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "cluster"

Pods = Callable[[Any], Iterator[Any]]


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keeps Ray from the tester's keys and token, and the tester's settings from Ray."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def read() -> Callable[[str], str]:
    """Returns what gives the text of a file in cluster/."""
    return lambda name: (FOLDER / name).read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def pins() -> Mapping[str, str]:
    """Returns the versions of constraints.txt."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", text, flags=re.MULTILINE))


@pytest.fixture(scope="session")
def settings() -> Mapping[str, str]:
    """Returns what env.sh sets in an empty environment."""
    command = ["env", "-i", "bash", "-c", f"source {FOLDER / 'env.sh'} && env"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = dict(line.split("=", 1) for line in done.stdout.splitlines())
    return {name: value for name, value in pairs.items() if name not in ("PWD", "SHLVL", "_")}


@pytest.fixture(scope="session")
def pods() -> Pods:
    """Returns what yields the pods of a manifest, each with its metadata."""

    def find(node: Any) -> Iterator[Any]:
        if isinstance(node, dict) and "containers" in node.get("spec", ()):
            yield node
        elif isinstance(node, dict | list):
            for part in node.values() if isinstance(node, dict) else node:
                yield from find(part)

    return find
