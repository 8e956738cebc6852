"""Commands that reports suggest, and the spec of a winner."""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import canonical
from sclsearch.methods import is_own
from sclsearch.selection.race import usual_band
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import storage_option
from sclsearch.tasks import TASKS

if TYPE_CHECKING:
    from pathlib import Path

    from sclsearch.methods.base import Method
    from sclsearch.reports.report import Report
    from sclsearch.study.spec import StudySpec

SIZES = ("train_size", "shots")
SEARCH_OPTIONS = ("configs", "race", "space", "sampler", "start_from", "search_seed")
OPTIONS = (
    *("model", "protocol", "scale", "folds", "metric", *SIZES, "unlabeled", "paraphrases"),
    *("precision", "data_dir", "rule", "seeds", "study", *SEARCH_OPTIONS),
    *("tracking", "checkpoint_every"),  # these do not change results
)


def method_option(report: "Report") -> str:
    """Return the option ` --method FILE.py:CLASS`; empty for a built-in method."""
    place = report.method_place
    return f" --method {shlex.quote(place)}" if is_own(place) else ""


def rule_option(report: "Report") -> str:
    """Return the option ` --rule RULE`; empty for the rule of the study's record."""
    usual = str(parse_rule(report.record.origin["rule"]))
    return "" if report.rule == usual else f" --rule {report.rule}"


def study_command(command: str, *reports: "Report", then: str = "") -> str:
    """Return a command about studies, such as `confirm`, with the options that they need.

    The text `then` follows the names of the studies.
    """
    first = reports[0]
    method = next(filter(None, map(method_option, reports)), "")
    names = " ".join(one.study for one in reports)
    options = f"{method}{rule_option(first)}{storage_option(first.storage)}"
    return f"sclsearch {command} {names}{then}{options}"


def export_command(report: "Report") -> str:
    """Return the command that saves the winner as a model, trained on all rows of an own task."""
    refit = "" if report.task in TASKS else " --refit all"
    return study_command("export", report, then=f" model{refit}")


def rerun_command(report: "Report", key: str) -> str:
    """Return the command that trains a seed run of a study again."""
    options = f"{method_option(report)}{storage_option(report.storage)}"
    return f"sclsearch rerun {key[:12]}{options}"


def search_command(report: "Report", changes: Mapping[str, Any] | None = None) -> str:
    """Return the command of a study's search, from its stored record.

    With `changes` it is the command of a new search: `train_size`, `shots` and hyperparameters to
    set; None removes a setting.
    """
    from sclsearch.study.restore import restore_task
    from sclsearch.tasks.custom import as_options

    record, origin, new = report.record, report.record.origin, changes is not None
    space, changed = record.identity["space"], dict(changes or {})
    searched = space["parameters"] or space["published"]
    configs = max(report.configs, len(report.configurations))
    race = "off" if report.race is None else report.race
    usual = usual_band(parse_rule(report.rule).score, configs, report.seeds)
    given = {
        **origin,
        **{name: changed.pop(name, origin.get(name)) for name in SIZES},
        "precision": None if origin.get("precision") == "auto" else origin.get("precision"),
        "rule": report.rule,
        # A search that replaces one of a single seed has the usual number.
        "seeds": None if new and report.seeds == 1 else report.seeds,
        "study": None if new else report.study,
        "configs": configs,
        "race": None if report.race == usual else race,
        "space": origin.get("space_option"),
        "search_seed": record.identity.get("search_seed"),
    }
    words = ["--method", str(origin["method"]), *as_options(restore_task(origin["task"]))]
    for name in OPTIONS:
        if given.get(name) is not None and (searched or name not in SEARCH_OPTIONS):
            words += [f"--{name.replace('_', '-')}", str(given[name])]
    for name, value in {**report.settings, **changed}.items():
        if value is not None:
            words += ["--set", f"{name}={as_setting(value)}"]
    command = "tune" if searched or new else "train"
    return f"sclsearch {command} {shlex.join(words)}{storage_option(report.storage)}"


def as_setting(value: object) -> str:
    """Return a value as text for `--set`."""
    return value if isinstance(value, str) else canonical(value)


def winner_spec(
    found: "Report", changes: Mapping[str, Any], method: "str | type[Method] | None" = None
) -> "tuple[StudySpec, Path | None]":
    """Return the spec of a report's winner with changes, and the data folder of its study.

    The changes are fields of `StudySpec`; `settings` has only the settings to replace. A method in
    a file must be given.

    Raises:
        SclsearchError: There is no winner, or the method has changed.
    """
    from sclsearch.reports.report import finished_winner, undamaged
    from sclsearch.study.restore import restore_path, restore_study_spec

    winner, settings = finished_winner(undamaged(found)), changes.get("settings", {})
    spec = restore_study_spec(found.record, winner.fields, method)
    if not changes.keys().isdisjoint(SIZES):
        spec = replace(spec, train_size=None, shots=None)
    changes = {**changes, "settings": {**spec.settings, **settings}}
    spec = replace(spec, **changes, shown=tuple({**winner.values, **settings}))
    return spec, restore_path(found.record.origin.get("data_dir"))
