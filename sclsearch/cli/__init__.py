"""Command line interface. Each command imports torch, Ray and other slow packages itself."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from sclsearch.arguments import expanded
from sclsearch.cli.augment import augment
from sclsearch.cli.cluster import job, submit
from sclsearch.cli.experiments import reproduce
from sclsearch.cli.listing import ls
from sclsearch.cli.look import check, compare, doctor, select, track, ui
from sclsearch.cli.study import rerun, train, tune
from sclsearch.cli.winner import confirm, export, predict, variance
from sclsearch.errors import INTERRUPTED, STOPPED, SclsearchError


class Commands(TyperGroup):
    """Command group that exits with one line on Ctrl-C."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """Parse the options before the command's name."""
        with _stopping():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest of the command line and run the command."""
        with _stopping():
            return super().invoke(ctx)


@contextmanager
def _stopping() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED}\n")
        sys.exit(INTERRUPTED)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(tune, train, select, compare, rerun, export, predict, confirm, variance, reproduce, augment),
    *(submit, job),
    *(ls, check, track, ui, doctor),
)


RENAMED = {"--unlabelled": "--unlabeled", "--initialisations": "--initializations"}
"""Old spellings of options, which all commands still accept, with the current spelling."""


class HomeCommand(TyperCommand):
    """Command that expands `~` in path options, since shells do not expand `--option=~/folder`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options after replacing old spellings."""
        split = (argument.partition("=") for argument in args)
        return super().parse_args(
            ctx, [f"{RENAMED.get(name, name)}{equals}{value}" for name, equals, value in split]
        )

    def invoke(self, ctx: Any) -> Any:
        """Run the command with expanded paths."""
        ctx.params = {name: _at_home(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


def _at_home(value: Any) -> Any:
    if isinstance(value, list):
        return [_at_home(item) for item in value]
    return expanded(value) if isinstance(value, Path) else value


for command in COMMANDS:
    # All arguments after `submit COMMAND` belong to COMMAND.
    interspersed = {"allow_interspersed_args": command is not submit}
    app.command(cls=HomeCommand, context_settings=interspersed)(command)


def _tell_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"sclsearch {version('sclsearch')}\n")
        raise typer.Exit


@app.callback()
def _sclsearch(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Hyperparameter search for supervised contrastive fine-tuning of text classifiers."""


DISK_FAULTS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
}


def main() -> None:
    """Run a command; print errors that the user can correct in red and exit with code 2."""
    try:
        app()
    except SclsearchError as error:
        _end(str(error))
    except OSError as error:
        if error.errno not in DISK_FAULTS:
            raise
        _end(
            f"{error.filename or 'disk'}: files must be readable and writable, but: "
            f"{error.strerror}. Mend that; the same command goes on, and nothing finished is lost."
        )


def _end(told: str) -> None:
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text(told, style="red"), soft_wrap=True)
    sys.exit(2)
