"""Lookup and loading of search space files, with a YAML reader for JSON-compatible values."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sclsearch.canonical import check_regular, one_line
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from ruamel.yaml import YAML

    from sclsearch.methods.base import Method
    from sclsearch.spaces.space import Space

PAPER: Final = "paper"
PRACTICAL: Final = "practical"


def find_space(method: str, task: str = PAPER, folder: Path | None = None) -> Path:
    """Return the path of the file with the paper's search space of a method for a task.

    The function tries the task's file, the file of the similar task (`like`), then `paper.yaml`.
    """
    from sclsearch.tasks import TASKS

    place = (folder or shipped_spaces()) / method
    like = TASKS[task].like if task in TASKS else None
    for name in filter(None, (task, like, PAPER)):
        if (path := place / f"{name}.yaml").is_file():
            return path
    raise SclsearchError(
        f"{_shown(place)}: neither {task}.yaml nor {PAPER}.yaml exists. Pass --space FILE."
    )


def practical_file(method: str) -> Path:
    """Return the path of the file with a method's practical search space."""
    return shipped_spaces() / method / f"{PRACTICAL}.yaml"


def load_space(path: Path, method: "type[Method] | str") -> "Space":
    """Return the validated search space of a file."""
    from sclsearch.methods import method_class

    return _loaded(path, method_class(method) if isinstance(method, str) else method)


def check_file(path: Path, method: "type[Method] | None" = None) -> list[str]:
    """Return the errors of a search space file, one line per error.

    Errors of values appear once keys, types and bounds are valid. If `method` is None, the file
    may name any method.
    """
    try:
        _loaded(path, method)
    except SclsearchError as error:
        return str(error).splitlines()
    return []


def _loaded(path: Path, method: "type[Method] | None") -> "Space":
    from sclsearch.spaces.check import read_space

    where = _shown(path)
    try:
        check_regular(path)
        raw = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SclsearchError(f"{where}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SclsearchError(f"{where}: {error}") from error
    return read_space(raw, where, method)


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
    return {f"{path.parent.name}/{path.stem}": _source(path) for path in space_files()}


def _source(path: Path) -> str:
    """Return the value of `source` without constructing the rest of the file, which is slow."""
    events = _reader().parse(path.read_text(encoding="utf-8"))
    scalars = (event.value for event in events if hasattr(event, "value"))
    return next(scalars, "") if "source" in scalars else ""


def _shown(path: Path) -> str:
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def load_yaml(text: str) -> Any:
    """Return the content of a YAML text.

    Raises:
        ValueError: The text is not YAML, or has a value that JSON does not have.
    """
    from ruamel.yaml.error import YAMLError

    try:
        read = _reader().load(text)
        json.dumps(read, allow_nan=False)
    except (YAMLError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid YAML: {one_line(str(error), 200)}") from error
    return read


def _reader() -> "YAML":
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True)
