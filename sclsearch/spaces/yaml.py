"""Safe YAML reader: JSON-compatible values only, no aliases, limited size and depth."""

from typing import TYPE_CHECKING, Any

from sclsearch.canonical import canonical

if TYPE_CHECKING:
    from ruamel.yaml import YAML

MOST_CHARACTERS = 1_000_000
MOST_DEPTH = 50


def load_yaml(text: str) -> Any:
    """Return the content of a YAML text.

    Raises:
        ValueError: The text is not YAML, or has a value other than text, finite numbers, true,
            false, null, lists and mappings. The message begins with the line if it is known.
    """
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"must have at most {MOST_CHARACTERS:,} characters, got {len(text):,}")
    try:
        _check_structure(text)
        read = _reader().load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = error.problem or error.context
        if isinstance(error, DuplicateKeyError):
            key = str(problem).partition('"')[2].partition('" with value ')[0]
            problem = f"the key {key!r} is there twice"
        raise ValueError(f"{at}{problem}") from error
    except YAMLError as error:
        raise ValueError(f"must be YAML, but: {error}") from error
    try:
        canonical(read)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "must hold nothing but texts, finite numbers, true, false, lists and mappings with "
            f"texts as keys, but: {error}"
        ) from error
    return read


def scalars(text: str) -> list[str]:
    """Return all scalar keys and values of a YAML text, in order and unconverted."""
    events = _reader().parse(text)
    return [event.value for event in events if hasattr(event, "value")]


def _reader() -> "YAML":
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True)


def _check_structure(text: str) -> None:
    """Raise ValueError for aliases, which can expand without limit, and for deep nesting."""
    from ruamel.yaml.events import (
        AliasEvent,
        CollectionEndEvent,
        CollectionStartEvent,
    )

    depth = 0
    for event in _reader().parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        line = event.start_mark.line + 1
        alias = event.anchor if isinstance(event, AliasEvent) else ""
        if alias:
            raise ValueError(f"line {line}: *{alias}: aliases are not allowed. Write the value out")
        if depth > MOST_DEPTH:
            raise ValueError(f"line {line}: nested deeper than {MOST_DEPTH} levels")
