"""Lookup and loading of search space files, with all errors reported at once."""

from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError
from sclsearch.spaces.yaml import load_yaml, scalars

if TYPE_CHECKING:
    from sclsearch.methods.base import Method
    from sclsearch.spaces.space import Space


def find_space(method: str, task: str, folder: Path | None = None) -> Path:
    """Return the path of the search space file of a method for a task.

    The function tries the task's file, the file of the similar task (`like`), then `default.yaml`.

    Args:
        method: Name of the method.
        task: Name of the task.
        folder: Folder with one folder per method. None uses the search spaces of the package.

    Raises:
        SclsearchError: The method has none of these files.
    """
    from sclsearch.tasks import TASKS

    place = (folder or shipped_spaces()) / method
    like = TASKS[task].like if task in TASKS else None
    for name in filter(None, (task, like, "default")):
        if (path := place / f"{name}.yaml").is_file():
            return path
    raise SclsearchError(
        f"{_shown(place)}: {task}.yaml or default.yaml must be there, but neither is. "
        "Name a file with --space"
    )


def load_space(path: Path, method: "type[Method] | str", model: str | None = None) -> "Space":
    """Return the validated search space of a file.

    Args:
        path: The YAML file.
        method: Required method, by class or by name.
        model: Name of the encoder. A section of `models` with this name overrides the file's keys.

    Raises:
        SclsearchError: The file has errors. The message has one line per error.
    """
    from sclsearch.methods import method_class
    from sclsearch.spaces.check import read_spaces

    kind = method_class(method) if isinstance(method, str) else method
    spaces, faults = read_spaces(_read(path), _shown(path), kind)
    if faults:
        raise SclsearchError("\n".join(_lines(path, faults)))
    return spaces.get(model, spaces[None])


def check_file(path: Path, method: "type[Method] | None" = None) -> list[str]:
    """Return all errors of a search space file, one line per error.

    Args:
        path: The YAML file.
        method: Required method class. None accepts the method that the file names.
    """
    from sclsearch.spaces.check import read_spaces

    try:
        raw = _read(path)
    except SclsearchError as error:
        return [str(error)]
    return _lines(path, read_spaces(raw, _shown(path), method)[1])


def shipped_spaces() -> Path:
    """Return the folder of the package's search spaces, in a wheel or in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "search_spaces"
    return inside if inside.is_dir() else package.parent / "search_spaces"


def space_files() -> list[Path]:
    """Return the package's search space files, sorted by method and task."""
    return sorted(shipped_spaces().rglob("*.yaml"))


def space_summaries() -> dict[str, str]:
    """Return the `source` text of each search space of the package, by `<method>/<task>`."""
    summaries = {}
    for path in space_files():
        summaries[f"{path.parent.name}/{path.stem}"] = _source(path)
    return summaries


def _source(path: Path) -> str:
    """Return the value of `source` without constructing the rest of the file, which is slow."""
    told = iter(scalars(path.read_text(encoding="utf-8")))
    return next(told, "") if "source" in told else ""


def _read(path: Path) -> object:
    """Return the content of a YAML file, restricted to values that JSON supports."""
    where = _shown(path)
    try:
        check_regular(path)
        raw: object = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SclsearchError(
            f"{where}: the file must be readable, but: {error.strerror}"
        ) from error
    except ValueError as error:
        raise SclsearchError(f"{where}: {error}") from error
    return raw


def _lines(path: Path, faults: list[tuple[str, str]]) -> list[str]:
    where = _shown(path)
    return [
        f"{where}: {place}: {reason}" if place else f"{where}: {reason}" for place, reason in faults
    ]


def _shown(path: Path) -> str:
    """Return the path relative to the current folder if it lies in it, else the absolute path."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
