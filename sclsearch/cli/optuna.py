"""The `export-optuna` command, which writes a study for optuna-dashboard."""

import sys
from typing import Annotated

import typer

from sclsearch.canonical import counted
from sclsearch.cli import options as o
from sclsearch.store.storage import DEFAULT_STORAGE


def export_optuna(
    study: Annotated[str, typer.Argument(help="Name of a study, see `sclsearch ls studies`.")],
    url: Annotated[
        str, typer.Argument(help="Database of an Optuna storage. Example: sqlite:///optuna.db.")
    ],
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Write a study to an Optuna storage, one trial per configuration, for optuna-dashboard.

    Running the command again replaces the trials.
    """
    from sclsearch.api import export_optuna as write
    from sclsearch.tracking.server import masked

    count = write(study, url, rule=rule, storage=storage)
    shown = f"{counted(count, 'trial')} written. Show them: optuna-dashboard {masked(url)}"
    sys.stdout.write(f"{shown}\n")
