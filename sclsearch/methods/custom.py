"""Loading and validation of a custom method from a user's file, such as `./mine.py:MyMethod`."""

import importlib.util
import inspect
import sys
import traceback
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sclsearch.errors import SclsearchError, suggestion

PROMISED = ("protocol", "few_shot", "regression", "training", "check", "stages", "scores")
MODULE = "sclsearch_own_"


def load_custom_method(place: str) -> type[Any]:
    """Import a custom method and return its class.

    Args:
        place: `FILE.py:CLASS`.

    Raises:
        SclsearchError: The file or class does not exist, or the class is not a valid method. The
            message has one line per fault.
    """
    path, _, name = place.rpartition(":")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise SclsearchError(
            f"--method {place}: {path} must be a Python file, but there is none. "
            "Write FILE.py:CLASS."
        )
    module = _import(file, place)
    classes = {n: c for n, c in vars(module).items() if inspect.isclass(c)}
    own = [n for n, c in classes.items() if c.__module__ == module.__name__]
    if name not in classes:
        raise SclsearchError(
            f"--method {place}: {name!r} must be a class of {path}, but it is not."
            f"{suggestion(name, own)}"
        )
    kind = classes[name]
    faults = _faults(kind)
    if faults:
        raise SclsearchError("\n".join(f"--method {place}: {fault}" for fault in faults))
    return kind


def source_file(kind: type) -> Path:
    """Return the source file of a class.

    Raises:
        SclsearchError: The class has no file, as in an interactive session, and thus no digest.
    """
    try:
        file = Path(inspect.getfile(kind))
    except (TypeError, OSError):
        file = Path()
    if not file.is_file():
        raise SclsearchError(
            f"method {kind.__name__}: it must be written in a file, since the file's hash names "
            "its seed runs, but it is not. Move the class to a .py file and import it."
        )
    return file.resolve()


def _import(file: Path, place: str) -> ModuleType:
    name = f"{MODULE}{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SclsearchError(f"--method {place}: {file.name} must be a Python file: FILE.py:CLASS.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module here
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        told = traceback.format_exception_only(error)[-1].strip()
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        if isinstance(error, SyntaxError) and error.filename == str(file):
            lines = [error.lineno]
        where = f" (line {lines[-1]})" if lines else ""
        raise SclsearchError(
            f"--method {place}: {file.name} must import without errors, but: {told}{where}"
        ) from error
    return module


def _faults(kind: type) -> list[str]:
    faults = [
        f"{kind.__name__}.{name} must be there, as sclsearch.methods.base.Method has it, but it "
        "is missing"
        for name in PROMISED
        if not hasattr(kind, name)
    ]
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    if not is_dataclass(kind) or not parameters.frozen:
        faults.append(f"{kind.__name__} must be a frozen dataclass, but it is not")
        return faults
    return faults + [
        f"{kind.__name__}.{field.name} must have a default, since a space sets some fields and "
        "leaves the others, but it has none"
        for field in fields(kind)
        if field.default is MISSING
    ]
