"""Loading and validation of a custom method from a user's file, such as `./mine.py:MyMethod`."""

import importlib.util
import inspect
import sys
import traceback
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from sclsearch.canonical import file_digest
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.methods.base import Method, Training

REQUIRED = ("protocol", "few_shot", "regression", "training", "check", "stages", "scores")
"""Members that the engine requires of a method; `sclsearch.methods.base.Method` has defaults."""
OVERRIDABLE = ("check", "stages", "new_modules", "terms", "scores", "probabilities")


def load_custom_method(place: str) -> type[Any]:
    """Import a custom method, `FILE.py:CLASS`, and return its class.

    Raises:
        SclsearchError: The file or class does not exist.
    """
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

    Raises:
        SclsearchError: The class is not a valid method. The message has one line per fault.
    """
    errors = _errors(kind)
    if errors:
        raise SclsearchError("\n".join(f"--method {place}: {error}" for error in errors))
    for one in kind.__mro__:
        if one.__module__ == kind.__module__:
            hints, own = get_type_hints(one, include_extras=True), inspect.get_annotations(one)
            one.__annotations__ = {name: hints[name] for name in own}


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
            f"method {kind.__name__}: has no source file, whose hash would identify its seed runs. "
            "Move the class to a .py file and import it."
        )
    return file.resolve()


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
        message = traceback.format_exception_only(error)[-1].strip()
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        if isinstance(error, SyntaxError) and error.filename == str(file):
            lines = [error.lineno]
        where = f" (line {lines[-1]})" if lines else ""
        raise SclsearchError(
            f"--method {place}: importing {file.name} failed: {message}{where}"
        ) from error
    return module


def _errors(kind: type) -> list[str]:
    name = kind.__name__
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    if not is_dataclass(kind) or not parameters.frozen:
        return [f"{name} is not a frozen dataclass. Decorate it with @dataclass(frozen=True)."]
    errors = [
        f"{name}.{attribute} is missing. Inherit from sclsearch.methods.base.Method, or define it."
        for attribute in REQUIRED
        if not hasattr(kind, attribute)
    ]
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError as error:
        return [*errors, f"{name}: the type of a field is unknown: {error}. Import it."]
    shared = {field.name for field in fields(Training)}
    for field in fields(kind):
        where = f"{name}.{field.name}"
        if field.name in shared:
            errors.append(f"{where} is a field of every method. Rename it.")
        if field.default is MISSING:
            errors.append(
                f"{where} has no default value. Give it one, not a factory: a search space need "
                "not set every field."
            )
        try:
            TypeAdapter(hints[field.name])
        except PydanticSchemaGenerationError:
            errors.append(
                f"{where} has a type that no hyperparameter has. Use numbers, texts, bool, Literal "
                "or tuples of them."
            )
    return errors + _misnamed(kind)


def _misnamed(kind: type) -> list[str]:
    """Return errors for misspelled methods and for hyperparameters without a type."""
    errors, typed = [], inspect.get_annotations(kind)
    functions = [f for base in kind.__mro__ for f in vars(base).values() if inspect.isfunction(f)]
    called = {name for function in functions for name in function.__code__.co_names}
    for member, value in vars(kind).items():
        where = f"{kind.__name__}.{member}"
        inherited = any(hasattr(base, member) for base in (*kind.__bases__, Method))
        if member.startswith("_") or inherited:
            continue
        if inspect.isfunction(value) and member not in called:
            meant = get_close_matches(member, OVERRIDABLE, n=1, cutoff=0.85)
            if meant and meant[0] not in vars(kind):
                errors.append(
                    f"{where} is never called. Did you mean {meant[0]}? Otherwise rename it."
                )
        elif member not in typed and isinstance(value, bool | int | float | str):
            name = type(value).__name__
            errors.append(
                f"{where} has no type, so it is not a hyperparameter. Write {member}: {name} = "
                f"{value!r}, or ClassVar[{name}]."
            )
    return errors
