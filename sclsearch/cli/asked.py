"""Conversion of command line options to `StudySpec` and `RunOptions`, with early checks.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.arguments import options_named
from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError, lookup

if TYPE_CHECKING:
    from sclsearch.study.spec import RunOptions, StudySpec
    from sclsearch.tasks.custom import CustomTask

MEANS = (
    "data_dir",
    "tracking",
    "address",
    "cpus_per_trial",
    "gpus_per_trial",
    "concurrency",
    "retry_failed",
)


def asked(options: Mapping[str, Any]) -> "tuple[StudySpec, RunOptions]":
    """Return the StudySpec and the RunOptions of a command that trains a study.

    Raises:
        SclsearchError: A name is unknown, a value is invalid, or options contradict each other.
    """
    own = own_files(options)
    _check_names(options, own)
    from sclsearch.study.spec import RunOptions, StudySpec

    given = {
        **options,
        "task": own or options["task"],
        "settings": o.settings(options["set_"]),
        "unlabeled": o.unlabeled(options["unlabeled"]),
        "time_budget": o.seconds(options.get("time_budget"), "--time-budget"),
        "trial_timeout": o.seconds(options["trial_timeout"], "--trial-timeout"),
    }
    with options_named():
        return StudySpec(**_only(StudySpec, given)), RunOptions(**_only(RunOptions, given))


def run_options(options: Mapping[str, Any]) -> "RunOptions":
    """Return the RunOptions of a command that repeats experiments, such as `reproduce`.

    The command itself sets the studies and their seeds.
    """
    from sclsearch.store.storage import storage_folder
    from sclsearch.study.spec import RunOptions

    storage = storage_folder(options["storage"], make=False)
    given = {name: options[name] for name in MEANS}
    timeout = o.seconds(options["trial_timeout"], "--trial-timeout")
    with options_named():
        return RunOptions(
            storage=storage,
            rule=options.get("rule"),
            trial_timeout=timeout,
            custom_method=options.get("method"),
            **given,
        )


def _check_names(options: Mapping[str, Any], own: "CustomTask | None") -> None:
    """Raise SclsearchError for an unknown name or an unused data folder, before slow imports."""
    from sclsearch.methods import check_method_name
    from sclsearch.protocols import PROTOCOLS
    from sclsearch.protocols.base import Size
    from sclsearch.protocols.scale import SCALES
    from sclsearch.selection.rules import parse_rule
    from sclsearch.store.studies import StudyStore
    from sclsearch.tasks import check_data_dir, check_task_name

    check_method_name(options["method"])
    if own is None:
        check_task_name(options["task"])
    check_data_dir(own or options["task"], options["data_dir"])
    if options["protocol"] is not None:
        lookup(PROTOCOLS, options["protocol"], "protocol")
    if options["scale"] is not None:
        lookup(SCALES, options["scale"], "scale")
    if options["rule"] is not None:
        parse_rule(options["rule"])
    if options["study"] is not None:
        StudyStore(options["storage"], options["study"])
    Size.of(options["train_size"], options["shots"])


def own_files(options: Mapping[str, Any]) -> "CustomTask | None":
    """Return the custom task that the options for the user's own file describe; None for others.

    Raises:
        SclsearchError: The options come with a named task, or the text or label column is missing.
    """
    given = {name: options[name] for name in o.OWN_FILES if options[name] not in (None, False)}
    if not given:
        return None
    from sclsearch.tasks import TASKS

    named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if options["task"] in TASKS and not Path(options["task"]).exists():
        raise SclsearchError(
            f"{named}: it must come with a file of your own, but {options['task']} is a task of "
            "`sclsearch ls tasks`. Leave it out."
        )
    if not options["text"] or options["label"] is None:
        raise SclsearchError(
            f"{named}: a file of your own must come with --text and --label. Pass both, or neither "
            "with a named task."
        )
    from sclsearch.tasks.custom import CustomTask

    parsed = {"text": tuple(options["text"]), "fractions": o.fractions(options["fractions"])}
    with options_named():
        return CustomTask(path=Path(options["task"]), **{**given, **parsed})


def _only(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: options[field.name] for field in fields(kind) if field.name in options}
