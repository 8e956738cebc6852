"""Command line interface. Each command imports torch, Ray and other slow packages itself."""

import errno
import sys
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated

import typer
from rich.text import Text

from sclsearch.cli.doctor import doctor
from sclsearch.cli.export import export, predict
from sclsearch.cli.ls import ls, rm
from sclsearch.cli.options import Commands, HomeCommand, grouped
from sclsearch.cli.output import write
from sclsearch.cli.reproduce import reproduce
from sclsearch.cli.show import compare, report, show
from sclsearch.cli.tune import confirm, rerun, train, tune
from sclsearch.cli.ui import ui
from sclsearch.errors import SclsearchError
from sclsearch.reports.terminal import Terminal

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    *(tune, train, show, compare, confirm, rerun),
    *(report, export, predict, reproduce),
    *(ls, rm, ui, doctor),
)


for command in COMMANDS:
    app.command(cls=HomeCommand)(grouped(command))


def _print_version(requested: bool) -> None:
    if requested:
        write(f"sclsearch {version('sclsearch')}\n")
        raise typer.Exit


@app.callback()
def _sclsearch(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Hyperparameter search for supervised contrastive fine-tuning of text classifiers."""


DISK_FAULTS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
}

LONGEST = 2000
"""Most characters of a line of an error, which may quote a longer value."""


def main() -> None:
    """Run a command; print errors that the user can correct in red and exit with their code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # the name of a file may have no encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except SclsearchError as error:
        _end(str(error), error.code)
    except OSError as error:
        if error.errno not in DISK_FAULTS:
            raise
        _end(
            f"{error.filename or 'disk'}: cannot be read or written: {error.strerror}. Fix that "
            "and run the same command again; finished seed runs are not lost."
        )


def _end(message: str, code: int = 2) -> None:
    lines = [
        line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
        for line in message.splitlines()
    ]
    Terminal(stderr=True).print(Text("\n".join(lines), style="red"), soft_wrap=True)
    sys.exit(code)
