"""Conversion of option groups to `StudySpec` and `RunOptions`.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.arguments import expanded, fields_of
from sclsearch.cli import options as o
from sclsearch.errors import lookup
from sclsearch.spaces.load import PAPER, PRACTICAL

if TYPE_CHECKING:
    from sclsearch.study.spec import RunOptions, StudySpec
    from sclsearch.tasks.custom import CustomTask


def spec_and_options(
    study: o.StudyOptions,
    own: o.OwnFileOptions,
    search: o.SearchOptions | None,
    resources: o.ResourceOptions,
) -> "tuple[StudySpec, RunOptions]":
    """Return the study and the run options of `tune`, or of `train` if `search` is None."""
    task = task_of(study.task, own)
    _check_names(study, resources, task)
    from sclsearch.study.spec import StudySpec

    settings = o.parse_settings(study.set_, epochs=study.epochs, learning_rate=study.learning_rate)
    values = {
        **asdict(study),
        **(asdict(search) if search else {}),
        "task": task,
        "settings": settings,
        "unlabeled": o.parse_unlabeled(study.unlabeled),
        "searched": search is not None,
    }
    if values.get("space") not in {None, PAPER, PRACTICAL}:
        values["space"] = expanded(Path(str(values["space"])))
    return StudySpec(**fields_of(StudySpec, values)), run_options(resources, **values)


def winner_spec_and_options(
    study: o.TrainOptions, own: o.OwnFileOptions, resources: o.ResourceOptions
) -> "tuple[StudySpec, RunOptions]":
    """Return the study and the run options of `train --from`."""
    _check_names(replace(study, task=None), resources, None)
    from sclsearch.reports.from_study import winner_spec
    from sclsearch.reports.report import report
    from sclsearch.store.storage import storage_folder
    from sclsearch.study.spec import StudySpec
    from sclsearch.tasks import check_data_dir

    found = report(storage_folder(resources.storage, make=False), str(study.from_))
    settings = o.parse_settings(study.set_, epochs=study.epochs, learning_rate=study.learning_rate)
    unlabeled = o.parse_unlabeled(study.unlabeled)
    given = {**asdict(study), "settings": settings or None, "unlabeled": unlabeled}
    unchanged = asdict(o.TrainOptions())
    changes = {
        name: value
        for name, value in fields_of(StudySpec, given).items()
        if value is not None and value != unchanged.get(name) and name not in {"method", "task"}
    }
    spec, folder = winner_spec(found, changes, study.method)
    if (task := _changed_task(spec.task, study.task, own)) is not None:
        spec, folder = replace(spec, task=task), None
    check_data_dir(spec.task, resources.data_dir)
    values = {**asdict(study), "data_dir": resources.data_dir or folder}
    return spec, run_options(resources, **values)


def _changed_task(
    before: "str | CustomTask", task: str | None, own: o.OwnFileOptions
) -> "str | CustomTask | None":
    """Return the task of `train --from` if options change it: another one, or other splits."""
    from sclsearch.tasks import TASKS, as_task

    given = {name: value for name, value in asdict(own).items() if value not in (None, False)}
    if not given and task is None:
        return None
    if isinstance(before, str) or task in TASKS:
        return task_of(task or str(before), own)
    if own.fractions:
        given["fractions"] = o.parse_fractions(own.fractions)
    if own.text:
        given["text"] = tuple(own.text)
    if task is None:
        return replace(before, **given)
    kept = {name: getattr(before, name) for name in ("text", "label", "metric", "regression")}
    return as_task(task, **{**kept, **given})


def run_options(resources: o.ResourceOptions, **others: Any) -> "RunOptions":
    """Return the run options; `others` may hold further fields of them."""
    from sclsearch.study.spec import RunOptions

    values = {**asdict(resources), **others}
    return RunOptions(**fields_of(RunOptions, values))


def repeat_options(resources: o.ResourceOptions, **others: Any) -> "RunOptions":
    """Return the run options of a command that repeats experiments from an existing storage."""
    from sclsearch.store.storage import storage_folder

    return run_options(resources, storage=storage_folder(resources.storage, make=False), **others)


def _check_names(
    study: o.StudyOptions, resources: o.ResourceOptions, task: "str | CustomTask | None"
) -> None:
    """Raise SclsearchError for an unknown name or an unused data folder, before slow imports."""
    from sclsearch.methods import check_method_name
    from sclsearch.protocols import find_protocol
    from sclsearch.protocols.base import Size
    from sclsearch.protocols.variants import SCALES
    from sclsearch.selection.rules import parse_rule
    from sclsearch.store.studies import StudyStore
    from sclsearch.tasks import check_data_dir

    if study.method is not None:
        check_method_name(study.method)
    if task is not None:
        check_data_dir(task, resources.data_dir)
    if study.protocol is not None:
        find_protocol(study.protocol)
    if study.scale is not None:
        lookup(SCALES, study.scale, "scale")
    if study.rule is not None:
        parse_rule(study.rule)
    if study.study is not None:
        StudyStore(resources.storage, study.study)
    Size.of(study.train_size, study.shots)


def task_of(task: str, own: o.OwnFileOptions) -> "str | CustomTask":
    """Return the name of a published task, or the task in a user's own file.

    Raises:
        SclsearchError: There is no such task or file, or the options do not fit.
    """
    from sclsearch.tasks import as_task

    options = {**asdict(own), "fractions": o.parse_fractions(own.fractions)}
    return as_task(task, **{**options, "text": tuple(own.text) if own.text else None})
