"""Conversion of functions to commands: option groups, `--help-all`, `~` in paths, Ctrl-C."""

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

from sclsearch.arguments import expanded
from sclsearch.errors import INTERRUPTED, STOPPED

HELP_ALL = "--help-all"
WITHOUT_VALUE = {"--refit": "validation"}
"""Options whose value may be left out, with the value that they then have."""
VALUES = {"--refit": ("validation", "all")}
"""Values of such options after which an argument may follow."""


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its groups as its own parameters.

    A group is a parameter of the type `Annotated[Mapping[str, Any], parameters]`, which gets the
    values of these parameters by name.
    """
    groups: dict[str, Mapping[str, inspect.Parameter]] = {}
    flat = []
    for one in inspect.signature(command, eval_str=True).parameters.values():
        group = get_args(one.annotation)[1] if get_origin(one.annotation) is Annotated else None
        if isinstance(group, Mapping):
            groups[one.name] = group
        flat += [*group.values()] if isinstance(group, Mapping) else [one]

    def run(**values: Any) -> None:
        built = {
            name: {option: values.pop(option) for option in group} for name, group in groups.items()
        }
        command(**built, **values)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in flat]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


class HomeCommand(TyperCommand):
    """Command with `--help-all`, options without a value, and `~` in path options.

    Shells do not expand `--option=~/folder`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options; some have a default value."""
        if HELP_ALL in args:
            for parameter in self.params:
                parameter.hidden = False  # type: ignore[attr-defined]
            args = ["--help"]
        following = [*args, "--"][1:]
        args = [
            f"{argument}={WITHOUT_VALUE[argument]}"
            if argument in WITHOUT_VALUE and not _is_value(argument, after)
            else argument
            for argument, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """Return the help; mention `--help-all` if it shows more."""
        if any(getattr(parameter, "hidden", False) for parameter in self.params):
            self.epilog = f"`{HELP_ALL}` shows all options."
        return super().get_help(ctx)

    def invoke(self, ctx: Any) -> Any:
        """Run the command with expanded paths."""
        ctx.params = {name: _at_home(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


def _is_value(option: str, text: str) -> bool:
    """Return whether a word after an option of WITHOUT_VALUE is its value."""
    return text in VALUES[option] if option in VALUES else not text.startswith("--")


def _at_home(value: Any) -> Any:
    if isinstance(value, list):
        return [_at_home(item) for item in value]
    return expanded(value) if isinstance(value, Path) else value


class Commands(TyperGroup):
    """Command group that exits with one line on Ctrl-C."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options before the command's name."""
        with _one_line_on_ctrl_c():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest of the command line and run the command."""
        with _one_line_on_ctrl_c():
            return super().invoke(ctx)


@contextmanager
def _one_line_on_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)
