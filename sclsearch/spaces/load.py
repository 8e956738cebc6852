"""Finds and reads search space files; faults come all at once, each with its place."""

from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError
from sclsearch.spaces.yaml import load_yaml, scalars

if TYPE_CHECKING:
    from sclsearch.methods.base import Method
    from sclsearch.spaces.space import Space


def find_space(method: str, task: str, folder: Path | None = None) -> Path:
    """Returns the file of a method for a task or the one that it is like, or the default.

    Args:
        method: Name of the method.
        task: Name of the task.
        folder: Where the methods' folders are; None takes the spaces that sclsearch brings.

    Raises:
        SclsearchError: The method has neither file.
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
    """Returns the checked space of a file.

    Args:
        path: The YAML file.
        method: The method that the space must be of, by class or by name.
        model: Name of the encoder. If `models` has it, its section is laid over the file.

    Raises:
        SclsearchError: The file has faults; the message has a line for each.
    """
    from sclsearch.methods import method_class
    from sclsearch.spaces.check import read_spaces

    kind = method_class(method) if isinstance(method, str) else method
    spaces, faults = read_spaces(_read(path), _shown(path), kind)
    if faults:
        raise SclsearchError("\n".join(_lines(path, faults)))
    return spaces.get(model, spaces[None])


def check_file(path: Path, method: "type[Method] | None" = None) -> list[str]:
    """Returns every fault of a file, a line each.

    Args:
        path: The YAML file.
        method: The class that the space must be of; None takes the one that the file names.
    """
    from sclsearch.spaces.check import read_spaces

    try:
        raw = _read(path)
    except SclsearchError as error:
        return [str(error)]
    return _lines(path, read_spaces(raw, _shown(path), method)[1])


def shipped_spaces() -> Path:
    """Returns the folder of the spaces that sclsearch brings: in the wheel, or in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "search_spaces"
    return inside if inside.is_dir() else package.parent / "search_spaces"


def space_files() -> list[Path]:
    """Returns the files that sclsearch brings, by method and task."""
    return sorted(shipped_spaces().rglob("*.yaml"))


def space_summaries() -> dict[str, str]:
    """Returns the source of each file that sclsearch brings, by `<method>/<task>`."""
    summaries = {}
    for path in space_files():
        summaries[f"{path.parent.name}/{path.stem}"] = _source(path)
    return summaries


def _source(path: Path) -> str:
    """Return what follows `source`; the rest of the file, which takes its time, is not read."""
    told = iter(scalars(path.read_text(encoding="utf-8")))
    return next(told, "") if "source" in told else ""


def _read(path: Path) -> object:
    """Return the content of a YAML file that JSON could hold too."""
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
    """Returns the path as a person in the present folder would write it."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
