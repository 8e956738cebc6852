"""Search spaces from files: lookup, YAML, validation, and the practical space of an encoder."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Required, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from sclsearch.arguments import fault_texts
from sclsearch.canonical import check_regular, one_line
from sclsearch.encoders.models import EncoderTraits
from sclsearch.errors import SclsearchError
from sclsearch.methods import method_class, method_name
from sclsearch.spaces.space import Choice, Integers, Parameter, Range, Space

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

FILE = ("method", "source", "published", "fixed", "space")
PAPER: Final = "paper"
PRACTICAL: Final = "practical"
SHOWN_FAULTS = 20


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
    line = re.compile(r'^source: "(.*)"$', re.MULTILINE)  # a YAML parser would take a second
    texts = {f"{path.parent.name}/{path.stem}": path.read_text("utf-8") for path in space_files()}
    return {name: line.findall(text)[0] for name, text in texts.items()}


def _shown(path: Path) -> str:
    path, here = path.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def load_yaml(text: str) -> Any:
    """Return the content of a YAML text; raise ValueError if it has values that JSON has not."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.events import AliasEvent

    reader = YAML(typ="safe", pure=True)
    try:
        aliases = "&" in text and any(isinstance(one, AliasEvent) for one in reader.parse(text))
        read = None if aliases else reader.load(text)
        json.dumps(read, allow_nan=False)
    except (YAMLError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid YAML: {one_line(str(error), 200)}") from error
    if aliases:  # aliases of aliases are gigabytes in a few lines
        raise ValueError("invalid YAML: aliases, such as *name, are not supported")
    return read


@cache
def _file_type(method: "type[Method]") -> TypeAdapter[dict[str, Any]]:
    """Return the type of the search space files of a method: that of its hyperparameters."""
    from sclsearch.methods.fields import field_types, mapping_type

    types = field_types(method)
    choice: Any = Choice
    interval: Any = Range
    by_type = Field(discriminator="type")
    searched = {
        name: Annotated[choice[kind] | interval[kind] | Integers, by_type]
        for name, kind in types.items()
    }
    point: Any = mapping_type(types)
    file = {
        "method": Required[Literal[method_name(method)]],
        "source": Required[Annotated[str, Field(min_length=1)]],
        "published": list[point],
        "fixed": point,
        "space": Required[mapping_type(searched)],
    }
    return TypeAdapter(mapping_type(file))


def load_space(path: Path, method: "type[Method] | str | None") -> Space:
    """Return the validated search space of a file; with None the file may name any method."""
    where = _shown(path)
    try:
        check_regular(path)
        content = load_yaml(path.read_text(encoding="utf-8"))
        kind = method if isinstance(method, type) else _method_of(content, method)
        return _space(content, kind, where)
    except OSError as error:
        raise SclsearchError(f"{where}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise _error(where, [str(error)]) from error


def _method_of(content: Any, named: str | None) -> "type[Method]":
    try:
        own = content.get("method") if isinstance(content, dict) else None
        return method_class(named or str(own))
    except SclsearchError as error:
        advice = "Pass --method FILE.py:CLASS for a method of yours."
        raise ValueError(f"method: {error} {advice}") from error


def _space(content: Any, method: "type[Method]", where: str) -> Space:
    from sclsearch.methods.fields import field_types, typed

    try:
        file = _file_type(method).validate_json(json.dumps(content))
    except ValidationError as error:
        raise _error(where, fault_texts(error, [*FILE, *field_types(method)])) from error
    # Pydantic returns the keys in the order of the type.
    fixed = {name: file["fixed"][name] for name in content.get("fixed", ())}
    pairs = zip(file.get("published", ()), content.get("published", ()), strict=True)
    published = [{name: values[name] for name in own} for values, own in pairs]
    parameters: dict[str, Parameter] = {}
    for name in content["space"]:
        one = file["space"][name]
        if isinstance(one, Integers):
            values = (typed(method, {name: n}, f"{where}: space.")[name] for n in one.values)
            one = Choice(tuple(values))
        parameters[name] = one
    space = Space(file["method"], file["source"], parameters, tuple(published), fixed, where)
    both = [name for name in fixed if name in parameters]
    faults = [f"fixed.{name}: must be fixed or searched, got both" for name in both]
    if "chunk_tokens" in parameters:
        faults.append("space.chunk_tokens: changes memory and time, but no score; move it to fixed")
    faults += [f"published[{n}]: {t}" for n, one in enumerate(published) for t in space.faults(one)]
    if faults:
        raise _error(where, faults)
    return space.with_settings({})  # removes fixed values from published configurations


def _error(file: str, faults: Sequence[str]) -> SclsearchError:
    lines = [f"{file}: {fault}" for fault in faults[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"{file}: {len(faults)} faults in all, the first {SHOWN_FAULTS} shown.")
    return SclsearchError("\n".join(lines))


# Factors of `EncoderTraits.learning_rate`: the ends of the searched range, and post-training.
LOWEST_RATE, HIGHEST_RATE, POST_TRAINING = 0.2, 3.0, 0.5
LENGTHS = tuple(part * 2**power for power in range(4, 13) for part in (1, 1.5))
"""Maximum lengths in tokens: 16, 24, 32, 48, … 6144."""
MOST_ALONE = 0.1
"""Share of rows alone in their class up to which batches of a contrast are random."""
COVERED = 0.95
"""Share of the texts that the maximum length must not cut."""


def practical_space(
    space: Space, method: "type[Method]", traits: EncoderTraits, max_length: int, alone: float
) -> Space:
    """Return a method's practical space for an encoder and data, see `default_values`.

    For every method the learning rate ranges from 0.2 to 3 times `EncoderTraits.learning_rate`.
    """
    start, usual = traits.learning_rate, default_values(method, traits, max_length, alone)
    del usual["learning_rate"]
    low, high = _two_digits(start * LOWEST_RATE), _two_digits(start * HIGHEST_RATE)
    rates = Range(low, high, "log")
    parameters: dict[str, Parameter] = {"learning_rate": rates, **space.parameters}
    heads = parameters.get("heads")
    if isinstance(heads, Choice):  # LaCon cuts the embedding into slices of one width
        divisors = tuple(n for n in heads.values if traits.width % int(str(n)) == 0)
        parameters["heads"] = replace(heads, values=divisors)
    published = tuple({"learning_rate": start, **values} for values in space.published)
    changed = replace(space, parameters=parameters, published=published, practical=True)
    return replace(changed, fixed={**space.fixed, **usual})


def default_values(
    method: "type[Method]", traits: EncoderTraits, max_length: int, alone: float
) -> dict[str, object]:
    """Return the hyperparameters that suit encoder and texts, as `practical_space` fixes them.

    A contrast of labels leaves out rows that are `alone` in their class in a random batch of 16. If
    they are more than a tenth, batches are balanced (`benchmarks/search.md`).
    """
    from sclsearch.methods.fields import field_types

    found: dict[str, object] = {"learning_rate": traits.learning_rate, "max_length": max_length}
    if getattr(method, "rows_per_class", None) == 1 and alone > MOST_ALONE:
        found["rows_per_class"] = 2
    if hasattr(method, "post_learning_rate"):
        found["post_learning_rate"] = _two_digits(traits.learning_rate * POST_TRAINING)
    # Contrasted embeddings are means over tokens, and so is the input of a linear probe.
    types = get_type_hints(method)
    for name in ("pooling", "scl_features", "contrast_pooling"):
        if name in field_types(method):
            of_head = name == "pooling" and "head_hidden" in get_args(types[name])
            found[name] = traits.head_pooling if of_head else "mean"
    return found


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def covering_length(lengths: Iterable[int], positions: int | None) -> int:
    """Return the smallest of `LENGTHS` that truncates at most 5 % of the texts."""
    ordered = sorted(lengths)
    covered = ordered[ceil(COVERED * len(ordered)) - 1]
    step = next((length for length in LENGTHS if length >= covered), LENGTHS[-1])
    return int(min(step, positions or step))
