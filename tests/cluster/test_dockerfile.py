"""The image has the pinned versions, the settings of env.sh and no root: each rule by a mistake."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What Ray's launcher and KubeRay's probes call in a container.
COMMANDS = ("openssh-client", "rsync", "wget")


def faults(text: str, settings: Mapping[str, str]) -> list[str]:
    """Returns what is wrong with the Dockerfile."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    steps = [(step, rest) for step, _, rest in (line.partition(" ") for line in lines if line)]
    return [
        *_base(steps),
        *_installed(steps),
        *_copied(steps),
        *_arguments(steps),
        *_set(steps, settings),
    ]


def _base(steps: list[tuple[str, str]]) -> Iterator[str]:
    if [rest for step, rest in steps if step == "FROM"] != ["python:3.11-slim-bookworm"]:
        yield "FROM must name one Python and one Debian"
    if [rest for step, rest in steps if step == "USER"] != ["ray"]:
        yield "the last USER must be ray"
    if not any("useradd --create-home --uid 1000" in rest for step, rest in steps):
        yield "ray must have the user id 1000"
    yield from (f"{step} must not be used" for step, _ in steps if step in ("ADD", "EXPOSE"))


def _installed(steps: list[tuple[str, str]]) -> Iterator[str]:
    runs = [rest for step, rest in steps if step == "RUN"]
    yield from (f"{name} must be installed" for name in COMMANDS if name not in " ".join(runs))
    for run in runs:
        if "pip install" in run and "--constraint constraints.txt" not in run:
            yield "pip must install by constraints.txt"
        if "apt-get install" in run and "rm -rf /var/lib/apt/lists" not in run:
            yield "apt's lists must be removed in the same step"
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", " ".join(runs))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    yield from (
        f"the extra {extra} is unknown"
        for extra in extras.split(",")
        if extra not in known["project"]["optional-dependencies"]
    )


def _copied(steps: list[tuple[str, str]]) -> Iterator[str]:
    sources = [name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]]
    yield from (
        f"{name} is not there to be copied" for name in sources if not (ROOT / name).exists()
    )


def _arguments(steps: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the faults of the build's arguments: the commit, and the index of torch."""
    given = {rest.partition("=")[0] for step, rest in steps if step == "ARG"}
    words = [word for step, rest in steps if step == "ENV" for word in rest.split()]
    if "COMMIT" not in given or "SCLSEARCH_COMMIT=$COMMIT" not in words:
        yield "the argument COMMIT must reach the container: there is no .git"
    torch = [rest for step, rest in steps if step == "RUN" and rest.endswith(" torch")]
    if "TORCH_INDEX" not in given or not any("$TORCH_INDEX" in run for run in torch):
        yield "the argument TORCH_INDEX must choose the CUDA of torch"


OF_THE_IMAGE = {"HOME", "SCLSEARCH_COMMIT"}  # env.sh is for machines that have them already


def _set(steps: list[tuple[str, str]], settings: Mapping[str, str]) -> Iterator[str]:
    words = [word for step, rest in steps if step == "ENV" for word in rest.split()]
    given = {k: v for k, v in (word.split("=", 1) for word in words) if k not in OF_THE_IMAGE}
    for name in sorted({*given, *settings}):
        if given.get(name) != settings.get(name):
            yield f"ENV {name} must be {settings.get(name)}, as env.sh says"


def test_the_shipped_file_has_no_fault(
    read: Callable[[str], str], settings: Mapping[str, str]
) -> None:
    assert faults(read("Dockerfile"), settings) == []
