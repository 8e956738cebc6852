"""Loading and validation of a custom method from a user's file, such as `./mine.py:MyMethod`."""

import importlib.util
import inspect
import sys
import traceback
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError, first_line, suggestion
from sclsearch.methods.base import Method, Training
from sclsearch.methods.fields import field_types


def load_custom_method(place: str) -> type[Any]:
    """Import a custom method, `FILE.py:CLASS`, and return its class."""
    path, _, name = place.rpartition(":")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise SclsearchError(f"--method {place}: there is no file {path}. Write FILE.py:CLASS.")
    module = _import(file, place)
    classes = {n: c for n, c in vars(module).items() if inspect.isclass(c)}
    if name not in classes:
        own = [n for n, c in classes.items() if c.__module__ == module.__name__]
        raise SclsearchError(
            f"--method {place}: {path} has no class {name!r}.{suggestion(name, own)}"
        )
    return classes[name]


def check_custom_method(kind: type[Any], place: str) -> None:
    """Check the class of a custom method, and resolve its annotations.

    Workers get the class without its module, in which annotations that are texts have their
    meaning.
    """
    parameters = vars(kind).get("__dataclass_params__")
    if not (issubclass(kind, Method) and parameters is not None and parameters.frozen):
        raise SclsearchError(
            f"--method {place}: must be a frozen dataclass and derive from "
            "sclsearch.methods.base.Method. Decorate it with @dataclass(frozen=True)."
        )
    shared = {field.name for field in fields(Training)}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in shared:
            raise SclsearchError(
                f"--method {place}: {field.name} is a field of every method. Rename it."
            )
    try:
        kind()  # a search space need not set every field
        field_types(kind)
    except Exception as error:
        raise SclsearchError(
            f"--method {place}: {type(error).__name__}: {first_line(error)}. Correct the class."
        ) from error
    for base in kind.__mro__:
        if base.__module__ == kind.__module__:
            hints, own = get_type_hints(base, include_extras=True), inspect.get_annotations(base)
            base.__annotations__ = {name: hints[name] for name in own}


def source_file(kind: type) -> Path:
    """Return the source file of a class."""
    try:
        return Path(inspect.getfile(kind)).resolve(strict=True)
    except (TypeError, OSError) as error:
        raise SclsearchError(
            f"method {kind.__name__}: has no source file, whose hash would identify its seed runs. "
            "Move the class to a .py file and import it."
        ) from error


def _import(file: Path, place: str) -> ModuleType:
    name = f"sclsearch_own_{file.stem}_{file_digest(file)[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SclsearchError(f"--method {place}: {file.name} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module here
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [line.strip() for line in traceback.format_exc().splitlines()]
        origin = [line for line in lines if line.startswith(f'File "{file}"')][-1:]
        raise SclsearchError(
            f"--method {place}: importing it failed: {'; '.join([lines[-1], *origin])}"
        ) from error
    return module
