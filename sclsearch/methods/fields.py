"""Validation of hyperparameter values and of custom methods, such as ./mine.py:MyMethod."""

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sclsearch.arguments import entries, fault_texts
from sclsearch.canonical import as_tuples, digest, file_digest
from sclsearch.errors import SclsearchError, first_line, suggestion
from sclsearch.methods import is_own
from sclsearch.methods.base import Method, Training

BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
"""Signs of the bounds in a JSON schema."""
LARGEST = 100_000
"""Largest integer value of a field; a training with more epochs, for example, never ends."""


@cache
def field_types(method: type[Method]) -> Mapping[str, Any]:
    """Return the type of each hyperparameter: those of the method, then those of `Training`."""
    kinds: tuple[type[Any], ...] = (method, Training)
    hints = {n: h for one in kinds for n, h in get_type_hints(one, include_extras=True).items()}
    names = [field.name for one in kinds for field in fields(one)]
    choices = {name for name in names if get_origin(hints[name]) is Literal}
    return {n: hints[n] if n in choices else Annotated[hints[n], _WITHIN] for n in names}


def _bounded(value: object) -> object:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"must be between -{LARGEST} and {LARGEST}, got {value!r}")
    return value


_WITHIN = AfterValidator(_bounded)


def mapping_type(types: Mapping[str, Any]) -> Any:
    """Return the type of a mapping for pydantic, which may have these keys and no others."""
    make: Any = TypedDict
    found = make("mapping_type", types, total=False)
    found.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    return found


@dataclass(frozen=True, slots=True)
class FieldDescription:
    """Description of a hyperparameter for users."""

    name: str  # in YAML files, in `--set` and in MLflow
    kind: str  # type and bounds, for example `number > 0`
    default: object  # for the method; a protocol or a search space may replace it
    meaning: str  # its entry in the class's docstring
    shared: bool  # all methods have it


def description(method: type[Method]) -> str:
    """Return the docstring of a method without `Attributes`, which `describe_fields` returns."""
    return (inspect.getdoc(method) or "").partition("\n\nAttributes:\n")[0]


def describe_fields(method: type[Method]) -> list[FieldDescription]:
    """Return descriptions of all hyperparameters: those of the method, then those of `Training`."""
    owners: tuple[type[Any], ...] = (method, Training)
    return [
        FieldDescription(
            name=field.name,
            kind=_kind(TypeAdapter(field_types(method)[field.name]).json_schema()),
            default=method.training.get(field.name, field.default),
            meaning=_meanings(owner).get(field.name, ""),
            shared=owner is Training,
        )
        for owner in owners
        for field in fields(owner)
    ]


def _meanings(kind: type) -> dict[str, str]:
    bases = reversed(kind.__mro__)
    return {n: text for base in bases for n, text in entries(base, "Attributes").items()}


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'])}" if "items" in schema else "list"
    kind = "true | false" if schema.get("type") == "boolean" else str(schema.get("type", "any"))
    bounds = [f" {sign} {schema[key]:g}" for key, sign in BOUNDS.items() if key in schema]
    return kind + ",".join(bounds)


@cache
def _values(method: type[Method]) -> TypeAdapter[dict[str, object]]:
    return TypeAdapter(mapping_type(field_types(method)))


def typed(method: type[Method], values: Mapping[str, object], where: str) -> dict[str, object]:
    """Return values converted to the types of their fields, for example 1 to 1.0.

    Raise SclsearchError with a line per unknown or invalid field, which begins with `where`.
    """
    try:
        found = _values(method).validate_python({n: as_tuples(v) for n, v in values.items()})
    except ValidationError as error:
        lines = fault_texts(error, field_types(method))
        raise SclsearchError("\n".join(f"{where}{line}" for line in lines)) from error
    return {name: found[name] for name in values}


def build(
    method: type[Method], values: Mapping[str, object], where: str
) -> tuple[Method, Training]:
    """Return the method and the training settings with the given hyperparameter values."""
    checked: dict[str, Any] = typed(method, values, f"{where}: ")
    shared = {f.name: checked.pop(f.name) for f in fields(Training) if f.name in checked}
    return method(**checked), Training(**shared)


def resolved(method: Method, training: Training) -> dict[str, object]:
    """Return all hyperparameters with their values, those of the method first."""
    things: tuple[Any, ...] = (method, training)
    return {field.name: getattr(thing, field.name) for thing in things for field in fields(thing)}


def load_custom_method(place: str) -> type[Any]:
    """Import a custom method, `FILE.py:CLASS`, and return its class."""
    found: type[Any] = _load(place, "--method", "class", inspect.isclass)
    return found


def load_custom_sampler(place: str) -> Callable[[int], object]:
    """Import `FILE.py:FUNCTION`; return the function, which makes an Optuna sampler of a seed."""
    found: Callable[[int], object] = _load(place, "--sampler", "function", inspect.isfunction)
    return found


def sampler_name(sampler: str) -> str:
    """Return the name of a sampler in a study's identity: of a custom one, file and digest."""
    file = Path(sampler.rpartition(":")[0]).expanduser()
    return f"{Path(sampler).name} {own_digest(file)[:12]}" if is_own(sampler) else sampler


def _load(place: str, option: str, kind: str, fits: Callable[[object], bool]) -> Any:
    path, _, name = place.rpartition(":")
    file = Path(path).expanduser().resolve()
    if not file.is_file():
        raise SclsearchError(
            f"{option} {place}: there is no file {path}. Write FILE.py:{kind.upper()}."
        )
    module = _import(file, place, option)
    found = {n: one for n, one in vars(module).items() if fits(one)}
    if name not in found:
        own = [n for n, one in found.items() if one.__module__ == module.__name__]
        raise SclsearchError(
            f"{option} {place}: {path} has no {kind} {name!r}.{suggestion(name, own)}"
        )
    return found[name]


def check_custom_method(kind: type[Any], place: str) -> None:
    """Check the class of a custom method, and resolve its annotations.

    Ray sends workers the class without its module, so string annotations must be resolved first.
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
        kind()  # every field needs a default, because a search space may leave it out
        _values(kind)
    except (Exception, SystemExit) as error:
        raise SclsearchError(
            f"--method {place}: {type(error).__name__}: {first_line(error)}. Correct the class."
        ) from error
    modules = {module.__name__ for module in own_modules(kind)}
    for base in kind.__mro__:
        if base.__module__ in modules:
            hints, own = get_type_hints(base, include_extras=True), inspect.get_annotations(base)
            base.__annotations__ = {name: hints[name] for name in own}


def own_files(file: Path) -> list[Path]:
    """Return a Python file and the files beside it that it imports, directly or not."""
    found, left = list[Path](), [file]
    while left:
        path = left.pop()
        if path in found or not path.is_file():
            continue
        found.append(path)
        try:
            nodes = [*ast.walk(ast.parse(path.read_bytes()))]
        except (SyntaxError, ValueError):
            continue  # the import will tell
        names = [
            alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names
        ]
        names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        left += [file.parent / f"{name.partition('.')[0]}.py" for name in names]
    return found


def own_digest(file: Path) -> str:
    """Return the SHA-256 of a custom method's file, and of the files beside it that it imports."""
    first, *others = own_files(file)
    if not others:
        return file_digest(first)
    return digest({path.name: file_digest(path) for path in (first, *others)})


def own_modules(kind: type) -> list[ModuleType]:
    """Return the modules of a custom method: of its file, and of those beside it."""
    names = [kind.__module__, *(path.stem for path in own_files(source_file(kind))[1:])]
    return [sys.modules[name] for name in names if name in sys.modules]


def source_file(kind: type) -> Path:
    """Return the source file of a class."""
    try:
        return Path(inspect.getfile(kind)).resolve(strict=True)
    except (TypeError, OSError) as error:
        raise SclsearchError(
            f"method {kind.__name__}: has no source file, whose hash would identify its seed runs. "
            "Move the class to a .py file and import it."
        ) from error


def _import(file: Path, place: str, option: str) -> ModuleType:
    name = f"sclsearch_own_{file.stem}_{own_digest(file)[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise SclsearchError(f"{option} {place}: {file.name} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module here
    for beside in own_files(file)[1:]:  # another method's file may have the same name
        sys.modules.pop(beside.stem, None)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        lines = [line.strip() for line in traceback.format_exc().splitlines()]
        origin = [line for line in lines if line.startswith(f'File "{file}"')][-1:]
        raise SclsearchError(
            f"{option} {place}: importing it failed: {'; '.join([lines[-1], *origin])}"
        ) from error
    finally:
        sys.path.remove(str(file.parent))
    return module
