"""Conversion of the commands' options to `StudySpec` and `RunOptions`.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from sclsearch.arguments import fields_of
from sclsearch.cli.options import Values, parse_settings
from sclsearch.errors import lookup
from sclsearch.study.spec import DEFAULT_METHOD, RunOptions, StudySpec
from sclsearch.tasks.custom import CustomTask


def spec_and_options(values: Values, *, searched: bool) -> tuple[StudySpec, RunOptions]:
    """Return the study and the run options of `tune` or `train`."""
    task = task_of(values["task"], values)
    _check_names(values, task)
    known = {
        **values,
        "method": values["method"] or DEFAULT_METHOD,
        "task": task,
        "settings": _settings(values),
        "searched": searched,
    }
    return StudySpec(**fields_of(StudySpec, known)), run_options(values)


def winner_spec_and_options(values: Values, study: str) -> tuple[StudySpec, RunOptions]:
    """Return the study and the run options of `train --from`."""
    _check_names(values, None)
    from sclsearch.reports.from_study import winner_spec
    from sclsearch.reports.report import report
    from sclsearch.store.storage import storage_folder
    from sclsearch.tasks import check_data_dir

    found = report(storage_folder(values["storage"], make=False), study)
    unchanged = {one.name: one.default for one in fields(StudySpec)}
    changes = {
        name: value
        for name, value in fields_of(
            StudySpec, {**values, "settings": _settings(values) or None}
        ).items()
        if value not in (None, unchanged[name]) and name not in {"method", "task"}
    }
    spec, folder = winner_spec(found, changes, values["method"])
    if (task := _changed_task(spec.task, values)) is not None:
        spec, folder = replace(spec, task=task), None
    check_data_dir(spec.task, values["data_dir"])
    return spec, run_options(values, data_dir=values["data_dir"] or folder)


def _settings(values: Values) -> dict[str, object]:
    return parse_settings(
        values["settings"], epochs=values["epochs"], learning_rate=values["learning_rate"]
    )


def _changed_task(before: str | CustomTask, values: Values) -> str | CustomTask | None:
    """Return the task of `train --from` if options change it: another one, or other splits."""
    from sclsearch.tasks import TASKS, as_task

    task = values["task"]
    given = {name: value for name, value in _columns(values).items() if value}
    if not given and task is None:
        return None
    if isinstance(before, str) or task in TASKS:
        return task_of(task or str(before), values)
    if task is None:
        return replace(before, **given)
    kept = {name: getattr(before, name) for name in ("text", "label", "metric", "regression")}
    return as_task(task, **{**kept, **given})


def run_options(values: Values, **others: Any) -> RunOptions:
    """Return the run options; `others` replace values or add to them."""
    return RunOptions(**fields_of(RunOptions, {**values, **others}))


def repeat_options(values: Values, **others: Any) -> RunOptions:
    """Return the run options of a command that repeats experiments from an existing storage."""
    from sclsearch.store.storage import storage_folder

    return run_options(values, storage=storage_folder(values["storage"], make=False), **others)


def _check_names(values: Values, task: str | CustomTask | None) -> None:
    """Raise SclsearchError for an unknown name or an unused data folder, before slow imports."""
    from sclsearch.methods import check_method_name
    from sclsearch.protocols import find_protocol
    from sclsearch.protocols.base import Size
    from sclsearch.protocols.variants import SCALES
    from sclsearch.selection.rules import parse_rule
    from sclsearch.store.studies import StudyStore
    from sclsearch.tasks import check_data_dir

    if values["method"] is not None:
        check_method_name(values["method"])
    if task is not None:
        check_data_dir(task, values["data_dir"])
    if values["protocol"] is not None:
        find_protocol(values["protocol"])
    if values["scale"] is not None:
        lookup(SCALES, values["scale"], "scale")
    if values["rule"] is not None:
        parse_rule(values["rule"])
    if values["study"] is not None:
        StudyStore(values["storage"], values["study"])
    Size.of(values["train_size"], values["shots"])


def task_of(task: str, values: Values) -> str | CustomTask:
    """Return the name of a published task, or the task in a user's own file.

    Raises:
        SclsearchError: There is no such task or file, or the options do not fit.
    """
    from sclsearch.tasks import as_task

    return as_task(task, **_columns(values))


def _columns(values: Values) -> Mapping[str, Any]:
    """Return the options of a user's own file."""
    return {**fields_of(CustomTask, values), "text": tuple(values["text"] or ()) or None}
