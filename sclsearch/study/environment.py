"""Environment of a seed run: package versions, commit and machine."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("sclsearch", "torch", "transformers", "tokenizers", "numpy", "ray", "optuna")


def environment(threads: int, gpus: float | None = None) -> dict[str, Any]:
    """Return the environment of a seed run that `threads` torch threads train.

    `gpus` is the number of GPUs that the search reserves for it, such as 0.5; None if unknown.
    """
    import torch

    return {
        "packages": versions(),
        "commit": commit(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": threads,
        **({} if gpus is None else {"gpus": gpus}),
        "host": platform.node(),
        "pid": os.getpid(),
    }


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that can affect results."""
    return {name: version(name) for name in PACKAGES}


@cache
def commit() -> str | None:
    """Return the commit of the running checkout, with `-dirty` appended if it was changed.

    A container image has no checkout; its build sets SCLSEARCH_COMMIT instead.
    """
    folder = Path(__file__).parents[1]
    if not (folder.parent / ".git").exists():
        return os.environ.get("SCLSEARCH_COMMIT") or None
    found = _git(folder, "rev-parse", "HEAD")
    dirty = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{found}-dirty" if found and dirty else found or None


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
