"""Types of stored JSON objects, and the conversion of an object that was read."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

from pydantic import Field, TypeAdapter, ValidationError, with_config

from sclsearch.arguments import fault_texts

_T = TypeVar("_T")
Text = Annotated[str, Field(max_length=100_000, pattern=r"^[^\x00]*$")]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, lt=1e11)]
"""Unix seconds, or a duration."""
Scalar = bool | Annotated[int, Field(ge=-(2**63), lt=2**64)] | Number | Text
Value = Scalar | list[Scalar]
"""Value of a hyperparameter."""


@runtime_checkable
class Checked(Protocol):
    """Type whose fields must fit the path of its file."""

    def check(self, path: str) -> None: ...


def _forbidding(kind: Any) -> TypeAdapter[Any]:
    if hasattr(kind, "__dataclass_fields__"):  # of another version, if a field is unknown
        kind = with_config(extra="forbid")(kind)
    return TypeAdapter(kind)


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(_forbidding)


def parsed(kind: type[_T], stored: object, path: str) -> _T:
    """Return the object that was read from a path as an instance of a type.

    The checksum of the object protects the contents of its mappings, which are not checked.
    A type may have a method `check(path)`, which raises ValueError for another file's record.

    Raises:
        ValueError: It is not of the type; the message has the first error.
    """
    try:
        found: _T = _adapter(kind).validate_python(stored)
    except ValidationError as error:
        known = getattr(kind, "__dataclass_fields__", ())
        raise ValueError(fault_texts(error, known)[0]) from error
    if isinstance(found, Checked):
        found.check(path)
    return found
