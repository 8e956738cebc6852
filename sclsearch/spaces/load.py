"""Lookup and loading of search space files, with a YAML reader for JSON-compatible values."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sclsearch.arguments import place_of
from sclsearch.canonical import check_regular
from sclsearch.errors import SclsearchError, first_line

if TYPE_CHECKING:
    from ruamel.yaml import YAML

    from sclsearch.methods.base import Method
    from sclsearch.spaces.space import Space

PAPER: Final = "paper"
PRACTICAL: Final = "practical"


def find_space(method: str, task: str = PAPER, folder: Path | None = None) -> Path:
    """Return the path of the file with the paper's search space of a method for a task.

    The function tries the task's file, the file of the similar task (`like`), then `paper.yaml`.

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
    """Return the validated search space of a file.

    Args:
        path: The YAML file.
        method: Required method, by class or by name.

    Raises:
        SclsearchError: The file has errors. The message has one line per error.
    """
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
    """Return the path relative to the current folder if it lies in it, else the absolute path."""
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def load_yaml(text: str) -> Any:
    """Return the content of a YAML text.

    Raises:
        ValueError: The text is not YAML, or has a value other than text, finite numbers, true,
            false, null, lists and mappings. The message begins with the line if it is known.
    """
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        read = _reader().load(text)
        unsupported = next(_unsupported(read), None)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = error.problem or error.context
        if isinstance(error, DuplicateKeyError):
            key = str(problem).partition('"')[2].partition('" with value ')[0]
            problem = f"repeats the key {key!r}"
        raise ValueError(f"{at}{problem}") from error
    except YAMLError as error:
        raise ValueError(f"is not YAML: {first_line(error)}") from error
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    if unsupported is not None:
        path, fault = unsupported
        raise ValueError(f"{place_of(path)}: {fault}" if path else fault)
    return read


def _unsupported(value: object, *path: str | int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the path and the fault of each key and value that JSON does not support."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                yield path, f"keys must be text, got {key!r}"
            yield from _unsupported(one, *path, str(key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _unsupported(one, *path, number)
    elif not (value is None or isinstance(value, str | int) or _finite(value)):
        yield path, f"must be text, a finite number, true, false or null, got {value}"


def _finite(value: object) -> bool:
    return isinstance(value, float) and isfinite(value)


def _reader() -> "YAML":
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True)
