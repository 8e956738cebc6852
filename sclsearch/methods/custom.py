"""Custom methods and samplers in Python files, such as ./mine.py:MyMethod."""

import ast
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from sclsearch.canonical import digest, file_digest
from sclsearch.errors import SclsearchError, first_line, suggestion
from sclsearch.methods import is_own
from sclsearch.methods.base import Method, Training, reads_paraphrases
from sclsearch.methods.fields import value_schema


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
        # Every field needs a default, because a search space may leave it out.
        reads_paraphrases(kind(), Training())
        value_schema(kind)
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
