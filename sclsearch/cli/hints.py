"""Next commands, which a search suggests at its end."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from rich.console import Console

from sclsearch.store.storage import Storage, storage_option
from sclsearch.tracking import find_tracking_uri

WIDTH = 80


def show_next_commands(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Print commands with their effects, as lines that a shell accepts.

    Args:
        console: Console for the output.
        commands: Pairs of a command without its program, and its effect in a few words.
    """
    lines = [(f"sclsearch {command}", f"# {effect}") for command, effect in commands]
    if which("sclsearch") is None:
        activate = f"source {Path(sys.prefix) / 'bin' / 'activate'}"
        lines.insert(0, (activate, "# make the command available"))
    widest = max(len(command) for command, _ in lines)
    beside = all(len(f"  {' ' * widest}  {effect}") <= WIDTH for _, effect in lines)
    console.print("\nNext:", style="bold")
    for command, effect in lines:
        text = f"  {command:<{widest}}  {effect}" if beside else f"  {effect}\n  {command}"
        console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def winner_commands(
    study: str, rule: str | None, storage: Storage, *, usable: bool, method: str = ""
) -> list[tuple[str, str]]:
    """Return the commands for the winner of a study, or for its ranking if it has none.

    Args:
        study: The study's name.
        rule: Rule of this run; None for the study's own.
        storage: The storage.
        usable: Whether the study has a winner with a test score.
        method: `FILE.py:CLASS` of a custom method; empty for a built-in one.
    """
    named = f"{f' --rule {rule}' if rule else ''}{storage_option(storage)}"
    own = f" --method {shlex.quote(method)}" if method else ""
    if not usable:
        return [(f"select {study}{named}", "show the ranking so far")]
    return [
        (f"report {study} --output report{named}", "write figures and tables"),
        (f"export {study} model{named}", "save the winner as a model"),
        (f"confirm {study}{named}{own}", "test the winner on new seeds"),
    ]


def ui_command(tracking: str | None, storage: Storage) -> list[tuple[str, str]]:
    """Return the command that shows the runs in MLflow, if this machine holds its database."""
    if tracking is not None or not str(find_tracking_uri(None, storage)).startswith("sqlite"):
        return []
    named = "" if os.environ.get("MLFLOW_TRACKING_URI") else storage_option(storage)
    return [(f"ui{named}", "browse all runs in MLflow")]
