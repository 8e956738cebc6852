"""Options of the commands, made from the fields of `StudySpec`, `RunOptions` and `CustomTask`."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer

from sclsearch.arguments import declared
from sclsearch.errors import SclsearchError
from sclsearch.study.spec import SEARCH, SEARCH_OPTIONS, RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask

_FIELDS = declared(StudySpec, RunOptions, CustomTask)
_KEYWORD = Parameter.KEYWORD_ONLY


def option(name: str, **changes: Any) -> Any:
    """Return the command line's option of a field."""
    field, found = _FIELDS[name]
    names = [found.name] if found.name else []
    if _plain(field.type) is bool:
        names = [f"--{name.replace('_', '-')}"]
    details = {
        "help": found.text,
        "rich_help_panel": found.panel,
        "hidden": found.more,
        "metavar": found.metavar,
        "envvar": found.envvar,
    }
    return typer.Option(*names, **{**details, **changes})


def _parameter(name: str, **changes: Any) -> Parameter:
    """Return the parameter of a command for a field."""
    field, found = _FIELDS[name]
    default = None if field.default_factory is not MISSING else field.default
    return Parameter(
        name,
        _KEYWORD,
        default=Parameter.empty if default is MISSING else default,
        annotation=Annotated[found.kind or _plain(field.type), option(name, **changes)],
    )


def _plain(kind: Any) -> Any:
    """Return a type without the metadata of its parts, which Typer does not know."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in {Union, UnionType}:
        return Union[tuple(map(_plain, get_args(kind)))]  # noqa: UP007
    return kind


def _setting(name: str, kind: Any, text: str) -> Parameter:
    """Return the option of one hyperparameter, which is no field of its own."""
    found = typer.Option(help=text, rich_help_panel=SEARCH)
    return Parameter(name, _KEYWORD, default=None, annotation=Annotated[kind, found])


def _group(*parts: str | Parameter) -> Mapping[str, Parameter]:
    found = (_parameter(part) if isinstance(part, str) else part for part in parts)
    return {one.name: one for one in found}


Values = Mapping[str, Any]
"""Values of a group of options, by name of the field."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; do not train.")]
_RESOURCES = (
    *("trial_timeout", "retry_failed", "data_dir", "storage", "tracking"),
    *("address", "cpus_per_trial", "gpus_per_trial", "cuda_graphs", "concurrency"),
    Parameter("dry_run", _KEYWORD, default=False, annotation=DryRun),
    Parameter("json_", _KEYWORD, default=False, annotation=Json),
)
_EPOCHS = _setting("epochs", int | None, "Fixed number of epochs; the same as --set epochs=N.")
_RATE = _setting(
    "learning_rate", float | None, "Fixed learning rate; the same as --set learning_rate=X."
)
_TUNE = _group(*_FIELDS, _EPOCHS, _RATE, *_RESOURCES)
_TRAIN = {
    **{name: one for name, one in _TUNE.items() if name not in {*SEARCH_OPTIONS, "space"}},
    "task": _parameter("task", help=f"{_FIELDS['task'][1].text} Required without --from.").replace(
        default=None
    ),
    "method": _parameter(
        "method",
        help="A name from `sclsearch ls methods`, or FILE.py:CLASS. Default: scl, or with --from "
        "the study's.",
    ).replace(default=None),
}
TuneOptions = Annotated[Values, _TUNE]
TrainOptions = Annotated[Values, _TRAIN]
ResourceOptions = Annotated[Values, _group(*_RESOURCES)]
TextOptions = Annotated[
    Values,
    _group("task", "train_size", "shots", "unlabeled", "data_dir", *declared(CustomTask)),
]

StudyName = Annotated[str, typer.Argument(help="Name of a study, see `sclsearch ls studies`.")]
OwnMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="FILE.py:CLASS",
        help="Custom method of the study. Required if the method is defined in a file: code that "
        "stored data names runs only with this option.",
    ),
]
Scale = Annotated[str | None, option("scale")]
Paraphrases = Annotated[Path | None, option("paraphrases")]
DataDir = Annotated[Path | None, option("data_dir")]
TimeBudget = Annotated[str | None, option("time_budget")]
Storage = Annotated[str, option("storage")]
Tracking = Annotated[str | None, option("tracking")]
StudyRule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Selection rule: mean, best, top-K, or score/report. Default: the study's rule. "
        "Example: mean/best.",
    ),
]
StudySeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        help="Number of seeds to use, from the first. Default: all seeds of the study. Example: 5.",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking",
        help="MLflow tracking URI. Default: MLFLOW_TRACKING_URI, then SQLite if the storage is a "
        "folder.",
    ),
]


def given(context: typer.Context, name: str) -> bool:
    """Return True if a parameter is on the command line, even with its default value."""
    return "COMMANDLINE" in str(context.get_parameter_source(name))


def parse_settings(pairs: Sequence[str] | None, **others: object) -> dict[str, object]:
    """Return the hyperparameters of `--set KEY=VALUE` and of options such as `--epochs`.

    A value of a pair is YAML. `others` may be None, for options that are not given.

    Raises:
        SclsearchError: A pair has no `=`, no key, or a value that YAML cannot read, or a
            hyperparameter is set twice.
    """
    from sclsearch.spaces.load import load_yaml

    values = {name: value for name, value in others.items() if value is not None}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SclsearchError(f"--set: must be KEY=VALUE, as in --set tau=0.3, got {pair!r}.")
        if key in values:
            raise SclsearchError(f"--set {key}: is set twice. Set it once.")
        try:
            values[key] = load_yaml(text)
        except ValueError as error:
            raise SclsearchError(f"--set {pair[:60]}: {error}.") from error
    return values
