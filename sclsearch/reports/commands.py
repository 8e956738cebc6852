"""Commands that reports suggest, with all options that they need, and the spec of a winner."""

import shlex
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import canonical
from sclsearch.methods import is_own
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import storage_option
from sclsearch.store.studies import StudyRecord, existing_study

if TYPE_CHECKING:
    from pathlib import Path

    from sclsearch.methods.base import Method
    from sclsearch.reports.report import Report
    from sclsearch.study.spec import StudySpec

SIZES = ("train_size", "shots")


def method_option(report: "Report") -> str:
    """Return the option ` --method FILE.py:CLASS`; empty for a built-in method."""
    place = report.method_place
    return f" --method {shlex.quote(place)}" if is_own(place) else ""


def rule_option(report: "Report") -> str:
    """Return the option ` --rule RULE`; empty for the rule of the study's record."""
    _, record = existing_study(report.storage, report.study)
    return "" if report.rule == str(parse_rule(record.origin["rule"])) else f" --rule {report.rule}"


def confirm_command(report: "Report", command: str = "confirm") -> str:
    """Return the command that tests the winner of a report on fresh seeds, or another one."""
    options = f"{method_option(report)}{rule_option(report)}{storage_option(report.storage)}"
    return f"sclsearch {command} {report.study}{options}"


def report_command(report: "Report") -> str:
    """Return the command that writes the page of a study."""
    return confirm_command(report, "report")


def rerun_command(report: "Report", key: str) -> str:
    """Return the command that trains a seed run of a study again."""
    options = f"{method_option(report)}{storage_option(report.storage)}"
    return f"sclsearch rerun {key[:12]}{options}"


def search_command(
    report: "Report", record: StudyRecord, changes: Mapping[str, Any] | None = None
) -> str:
    """Return the command of a study's search, from its stored record.

    With `changes` it is the command of a new search: `train_size`, `shots` and hyperparameters to
    set; None removes a setting.
    """
    from sclsearch.study.restore import restore_task
    from sclsearch.tasks.custom import as_options

    origin, searched = record.origin, record.identity["space"]["parameters"]
    changed = {} if changes is None else dict(changes)
    size, shots = (changed.pop(name, origin.get(name)) for name in SIZES)
    named: dict[str, Any] = {
        "--model": origin.get("model"),
        "--protocol": origin.get("protocol"),
        "--scale": origin.get("scale"),
        "--splits": origin.get("splits"),
        "--train-size": size,
        "--shots": shots,
        "--unlabeled": origin.get("unlabeled"),
        "--paraphrases": origin.get("paraphrases"),
        "--precision": precision if (precision := origin.get("precision")) != "auto" else None,
        "--data-dir": origin.get("data_dir"),
        "--rule": origin.get("rule"),
        "--seeds": report.seeds,
        "--study": report.study if changes is None else None,
    }
    if searched:
        named["--configs"] = len(report.configurations)
        named["--sampler"] = record.identity.get("sampler")
        named["--search-seed"] = record.identity.get("search_seed")
    options = [(name, str(value)) for name, value in named.items() if value is not None]
    by_hand = {**report.settings, **changed}
    sets = [("--set", f"{name}={as_setting(v)}") for name, v in by_hand.items() if v is not None]
    task = as_options(restore_task(origin["task"]))
    words = ["--method", str(origin["method"]), *task, *chain.from_iterable([*options, *sets])]
    command = "train" if not searched and changes is None else "tune"
    return f"sclsearch {command} {shlex.join(words)}{storage_option(report.storage)}"


def as_setting(value: object) -> str:
    """Return a value as text for `--set`."""
    return value if isinstance(value, str) else canonical(value)


def winner_spec(
    found: "Report", changes: Mapping[str, Any], method: "str | type[Method] | None" = None
) -> "tuple[StudySpec, Path | None]":
    """Return the spec of a report's winner with changes, and the data folder of its study.

    The folder is None if the changes have another task.

    Args:
        found: The report.
        changes: Fields of `StudySpec` to replace; `settings` has only the settings to replace.
        method: `FILE.py:CLASS` or a class, required if the study's method is in a file.

    Raises:
        SclsearchError: There is no winner, or the method has changed.
    """
    from sclsearch.reports.report import finished_winner
    from sclsearch.study.restore import restore_path, restore_study_spec, with_changes

    winner = finished_winner(found)
    _, record = existing_study(found.storage, found.study)
    spec = with_changes(restore_study_spec(record, winner.fields, method), winner.values, changes)
    return spec, None if "task" in changes else restore_path(record.origin.get("data_dir"))
