"""Options of the commands, made from declared fields, and what the commands make of them."""

import errno
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from inspect import Parameter
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from sclsearch.api import chosen
from sclsearch.arguments import declared, entries, expanded, fields_of
from sclsearch.canonical import printable
from sclsearch.errors import INTERRUPTED, STOPPED, SclsearchError
from sclsearch.methods import check_method_name
from sclsearch.protocols import find_protocol
from sclsearch.protocols.base import Size
from sclsearch.selection.rules import parse_rule
from sclsearch.spaces.load import load_yaml
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import StudyStore
from sclsearch.study.spec import SEARCH, SEARCH_OPTIONS, RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask

HELP_ALL = "--help-all"


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups as its own parameters.

    A group is a parameter of the type `Annotated[Mapping[str, Any], parameters]`, which gets the
    values of these parameters by name. The section `Options:` of the docstring gives the help of
    the other parameters: that of an option `--name`, or that of an argument without dashes.
    """
    helps = {_parameter_name(one): (one, text) for one, text in entries(command, "Options").items()}
    groups: dict[str, Mapping[str, inspect.Parameter]] = {}
    flat = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        group = get_args(one.annotation)[1] if get_origin(one.annotation) is Annotated else None
        if isinstance(group, Mapping):
            groups[one.name] = group
        flat += [*group.values()] if isinstance(group, Mapping) else [_described(one, helps)]

    def run(**values: Any) -> None:
        built = {
            name: {option: values.pop(option) for option in group} for name, group in groups.items()
        }
        command(**built, **values)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in flat]
    run.__name__ = command.__name__
    run.__doc__ = (inspect.getdoc(command) or "").partition("\n\nOptions:\n")[0]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _parameter_name(names: str) -> str:
    """Return the parameter of an option such as `--no-text` or `--yes -y`."""
    return re.split("[ /]", names)[0].lstrip("-").replace("-", "_")


def _described(one: Parameter, helps: Mapping[str, tuple[str, str]]) -> Parameter:
    """Return a parameter with its help, and its name if it is an option."""
    if one.name.rstrip("_") not in helps:
        return one
    names, text = helps[one.name.rstrip("_")]
    is_option = names.startswith("-")
    kind, found = one.annotation, typer.Option(*names.split()) if is_option else typer.Argument()
    if get_origin(kind) is Annotated:
        kind, found = get_args(kind)
    found.help = text
    return one.replace(annotation=Annotated[kind, found])


class HomeCommand(TyperCommand):
    """Command with `--help-all` and checks of all values.

    It expands `~` in paths, because shells do not expand `--option=~/folder`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if HELP_ALL in args:
            for parameter in self.params:
                parameter.hidden = False  # type: ignore[attr-defined]
            args = ["--help"]
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:  # of a choice that Typer checks with pydantic
            error.message = error.message.removeprefix("Value error, ")
            raise

    def get_help(self, ctx: Any) -> str:
        if any(getattr(parameter, "hidden", False) for parameter in self.params):
            self.epilog = f"`{HELP_ALL}` shows all options."
        return super().get_help(ctx)

    def invoke(self, ctx: Any) -> Any:
        names = {one.name: one.opts[0] for one in self.params}
        ctx.params = {name: _checked(names[name], value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


def _checked(where: str, value: Any) -> Any:
    """Return a value with `~` expanded; refuse what is invalid for any option."""
    if isinstance(value, list):
        return [_checked(where, item) for item in value]
    if isinstance(value, int | float) and not abs(value) <= sys.maxsize:
        raise SclsearchError(f"{where}: must be from -{sys.maxsize} to {sys.maxsize}, got {value}.")
    if isinstance(value, str) and printable(value) != value:
        raise SclsearchError(f"{where}: must have no control characters, got {value!r}.")
    if isinstance(value, str | Path) and _is_loop(value):
        raise SclsearchError(f"{where} {value}: is a link that leads to itself. Name another path.")
    return expanded(value) if isinstance(value, Path) else value


def _is_loop(path: str | Path) -> bool:
    try:
        Path(path).stat()
    except (OSError, ValueError) as error:
        return getattr(error, "errno", None) == errno.ELOOP
    return False


class Commands(TyperGroup):
    """Command group that exits with one line on Ctrl-C."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _one_line_on_ctrl_c():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with _one_line_on_ctrl_c():
            return super().invoke(ctx)


@contextmanager
def _one_line_on_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


_FIELDS = declared(StudySpec, RunOptions, CustomTask)
_KEYWORD = Parameter.KEYWORD_ONLY


def option(name: str, **changes: Any) -> Any:
    """Return the command line's option of a field."""
    field, found, text = _FIELDS[name]
    names = [found.name] if found.name else []
    if _plain(field.type) is bool:
        names = [f"--{name.replace('_', '-')}"]
    details = {
        "help": text,
        "rich_help_panel": found.panel,
        "hidden": found.more,
        "metavar": found.metavar,
        "envvar": found.envvar,
    }
    return typer.Option(*names, **{**details, **changes})


def _parameter(name: str, **changes: Any) -> Parameter:
    field, found, _ = _FIELDS[name]
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


def _group(*parts: str | Parameter) -> Mapping[str, Parameter]:
    found = (_parameter(part) if isinstance(part, str) else part for part in parts)
    return {one.name: one for one in found}


Values = Mapping[str, Any]
"""Values of a group of options, by name of the field."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; do not train.")]
_RESOURCES = (
    *("trial_timeout", "retry_failed", "checkpoint_every", "data_dir", "storage", "tracking"),
    *("address", "cpus_per_trial", "gpus_per_trial", "accelerator", "cuda_graphs", "concurrency"),
    Parameter("dry_run", _KEYWORD, default=False, annotation=DryRun),
    Parameter("json_", _KEYWORD, default=False, annotation=Json),
)
_SETTINGS = (
    Parameter(
        name,
        _KEYWORD,
        default=None,
        annotation=Annotated[kind, typer.Option(help=text, rich_help_panel=SEARCH)],
    )
    for name, kind, text in (
        ("epochs", int | None, "Fixed number of epochs; the same as --set epochs=N."),
        ("learning_rate", float | None, "Fixed learning rate; the same as --set learning_rate=X."),
    )
)
_TUNE = _group(*_FIELDS, *_SETTINGS, *_RESOURCES)
_TRAIN = {
    **{name: one for name, one in _TUNE.items() if name not in {*SEARCH_OPTIONS, "space"}},
    "task": _parameter("task", help=f"{_FIELDS['task'][2]} Required without --from.").replace(
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
Scale = Annotated[Literal["laptop"] | None, option("scale")]
Paraphrases = Annotated[Path | None, option("paraphrases")]
DataDir = Annotated[Path | None, option("data_dir")]
TimeBudget = Annotated[str | None, option("time_budget")]
Storage = Annotated[str, option("storage")]
Tracking = Annotated[str | None, option("tracking")]
StudyRule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Selection rule: careful, mean, best, top-K, or score/report. Default: the study's. "
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
    """
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


def spec_and_options(
    values: Values, *, searched: bool = True, from_study: str | None = None
) -> tuple[StudySpec, RunOptions]:
    """Return the study and the run options of `tune` or `train`."""
    settings = parse_settings(
        values["settings"], epochs=values["epochs"], learning_rate=values["learning_rate"]
    )
    _check_names(values)

    named = (values["task"], values["method"])
    options = changed_options({**values, "settings": settings, "task": None, "method": None})
    return chosen(*named, options, searched=searched, from_study=from_study)


def changed_options(values: Values) -> dict[str, Any]:
    """Return the declared options without those that have their default."""
    return {
        name: value
        for name, value in values.items()
        if name in _FIELDS and value not in (None, [], {}, _FIELDS[name][0].default)
    }


def repeat_options(values: Values, **others: Any) -> RunOptions:
    """Return the run options of a command that repeats experiments from an existing storage."""
    changed = {**values, "storage": storage_folder(values["storage"], make=False), **others}
    return RunOptions(**fields_of(RunOptions, changed))


def _check_names(values: Values) -> None:
    """Raise SclsearchError for an unknown name, before slow imports."""
    if values["method"] is not None:
        check_method_name(values["method"])
    if values["protocol"] is not None:
        find_protocol(values["protocol"])
    if values["rule"] is not None:
        parse_rule(values["rule"])
    if values["study"] is not None:
        StudyStore(values["storage"], values["study"])
    Size.of(values["train_size"], values["shots"])
