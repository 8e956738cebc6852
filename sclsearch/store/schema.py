"""Types of stored JSON objects, and the validation of an object that was read."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import (
    BaseModel,
    Field,
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
    with_config,
)
from pydantic_core import CoreSchema, core_schema

from sclsearch.arguments import fault_texts

_T = TypeVar("_T")
MOST_ROWS = 2**31
"""Number of rows whose square still is a 64-bit integer."""
Text = Annotated[str, Field(max_length=100_000, pattern=r"^[^\x00]*$")]
Count = Annotated[int, Field(ge=0, lt=2**53)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**64)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Time = Annotated[float, Field(ge=0, lt=1e11)]
"""Unix seconds, or a duration."""
Scalar = bool | Seed | Number | Text
Value = Scalar | list[Scalar]
"""Value of a hyperparameter."""


@dataclass(frozen=True, slots=True)
class Like:
    """Annotation of a stored value that must have a type, and that validation does not change."""

    kind: Any

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any, validate: Callable[[Any], object]) -> Any:
            validate(value)
            return value

        schema = handler.generate_schema(self.kind)
        return core_schema.no_info_wrap_validator_function(check, schema)


class _Strict(BaseModel, strict=True, extra="allow"):
    """Object whose fields have exactly these types; it may have others, which nobody reads."""


class Fields(_Strict):
    """Every hyperparameter of method and training; the method checks its own."""

    __pydantic_extra__: dict[str, Value]
    batch_size: Annotated[int, Field(ge=1, lt=2**31)]
    epochs: Annotated[int, Field(ge=1, lt=2**31)]
    learning_rate: Annotated[float, Field(gt=0, lt=1e6)]
    max_length: Annotated[int, Field(ge=1, lt=2**31)]


class Parameter(_Strict):
    """Searched hyperparameter: a list of values, or a range."""

    name: Text
    type: Literal["choice", "float", "log"]
    values: list[Value] = Field([], min_length=1)
    low: Number = 0.0
    high: Number = 1.0

    @model_validator(mode="after")
    def _complete(self) -> Self:
        needed = {"values"} if self.type == "choice" else {"low", "high"}
        if missing := needed - self.model_fields_set:
            raise ValueError(f"{self.name} lacks {', '.join(sorted(missing))}")
        return self


class Space(_Strict):
    """Searched hyperparameters, and the values of the others."""

    parameters: list[Parameter]
    published: list[dict[Text, Value]] = []
    fixed: dict[Text, Value] = {}


class Identity(_Strict):
    """Properties of a study that must stay the same when it resumes."""

    task: Text
    model: Text
    protocol: Text
    size: Text | None
    space: Space
    sampler: Text = "gp"
    search_seed: Seed = 0


class Training(_Strict):
    """Identity that all seed runs of a study share."""

    method: Text
    metric: Text
    data: Text
    numerics: Text
    weights: Text
    method_file: Text = ""
    unlabeled_digest: Text = ""


class Origin(_Strict):
    """Specification of a study, see `spec_record`, and what reports print beside it."""

    method: Text
    task: Text | dict[Text, Value | None]
    model: Text
    protocol: Text
    rule: Text
    train_size: Count | None
    shots: Count | None
    notes: list[Text]
    study: Text
    labels: list[Text] = []
    pair: bool = False
    scale: Text | None = None
    folds: Count | None = None
    fresh: Count | None = None
    first_fresh: Count | None = None
    unlabeled: Count | Text | None = None
    data_dir: Text | None = None
    source: Text = ""
    space: Text = ""
    settings: dict[Text, Value] = {}
    shown: list[Text] | None = None
    paraphrases: Text | None = None
    precision: Text = "auto"
    training_rows: Annotated[list[Count | None], Field(min_length=2, max_length=2)] | None = None


class SeedRunOrigin(Origin):
    """Origin of the study that trained a seed run, and its place there."""

    configuration: Count
    replicate: Count


class Rows(_Strict):
    """Digests of a replicate's rows and other inputs."""

    __pydantic_extra__: dict[str, Text]
    train: Text


class Scores(_Strict):
    """Result on the rows of a split: counts of classes, or scores of a regression."""

    __pydantic_extra__: dict[str, Number]
    confusion: list[list[Count]] = []

    @model_validator(mode="after")
    def _square(self) -> Self:
        if not {len(row) for row in self.confusion} <= {len(self.confusion)}:
            raise ValueError("confusion must be a square matrix")
        if sum(map(sum, self.confusion)) >= MOST_ROWS:
            raise ValueError(f"confusion must have fewer than {MOST_ROWS} rows")
        return self


class Baseline(_Strict):
    """Results of a baseline on a replicate."""

    validation: Scores
    test: Scores = Scores()
    predictions: dict[str, list[Number]]


class Reading(_Strict):
    """Mean losses at an update of an earlier stage."""

    stage: Text
    epoch: Number
    update: Count
    loss: dict[Text, Number]


class Evaluated(_Strict):
    """Validation result and mean losses at an update of the last stage."""

    epoch: Number
    update: Count
    loss: dict[Text, Number]
    validation: Scores


class Environment(_Strict):
    """Threads, device and packages of a training."""

    threads: Annotated[int, Field(ge=1, le=10_000)] = 1
    cpu: Text | None = None
    gpu: Text | None = None
    driver: Text | None = None
    packages: dict[Text, Text] = {}


@runtime_checkable
class Checked(Protocol):
    """Type whose fields must fit each other and the path of its file."""

    def check(self, path: str) -> None: ...


def _strict(kind: Any) -> TypeAdapter[Any]:
    if hasattr(kind, "__dataclass_fields__"):  # of another version, if a field is unknown
        kind = with_config(extra="forbid")(kind)
    return TypeAdapter(kind)


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(_strict)


def parsed(kind: type[_T], stored: object, path: str) -> _T:
    """Return the object that was read from a path as an instance of a type.

    A type may have a method `check(path)`, which raises ValueError for fields that do not fit each
    other or the path.

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
