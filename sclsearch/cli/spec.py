"""Conversion of option groups to `StudySpec` and `RunOptions`.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.arguments import fields_of
from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError, lookup

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
    files = own_files(study.task, own)
    _check_names(study, resources, files)
    from sclsearch.study.spec import StudySpec

    settings = o.parse_settings(study.set_, epochs=study.epochs, learning_rate=study.learning_rate)
    values = {
        **asdict(study),
        **(asdict(search) if search else {}),
        "task": files or study.task,
        "settings": settings,
        "unlabeled": o.parse_unlabeled(study.unlabeled),
        "searched": search is not None,
    }
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
    from sclsearch.tasks import TASKS, check_task_name
    from sclsearch.tasks.custom import HUB_PREFIX

    given = {name: value for name, value in asdict(own).items() if value not in (None, False)}
    if not given and task is None:
        return None
    if isinstance(before, str) or task in TASKS:
        named = task or str(before)
        if (files := own_files(named, own)) is None:
            check_task_name(named)
        return files or named
    if task is not None and task.startswith(HUB_PREFIX):
        columns = {"text": list(before.text), "label": before.label}
        return own_files(task, replace(own, **{**columns, **given}))
    if own.fractions:
        given["fractions"] = o.parse_fractions(own.fractions)
    return replace(before, **given, path=before.path if task is None else Path(task))


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
    study: o.StudyOptions, resources: o.ResourceOptions, files: "CustomTask | None"
) -> None:
    """Raise SclsearchError for an unknown name or an unused data folder, before slow imports."""
    from sclsearch.methods import check_method_name
    from sclsearch.protocols import find_protocol
    from sclsearch.protocols.base import Size
    from sclsearch.protocols.variants import SCALES
    from sclsearch.selection.rules import parse_rule
    from sclsearch.store.studies import StudyStore
    from sclsearch.tasks import check_data_dir, check_task_name

    if study.method is not None:
        check_method_name(study.method)
    if study.task is not None:
        if files is None:
            check_task_name(study.task)
        check_data_dir(files or study.task, resources.data_dir)
    if study.protocol is not None:
        find_protocol(study.protocol)
    if study.scale is not None:
        lookup(SCALES, study.scale, "scale")
    if study.rule is not None:
        parse_rule(study.rule)
    if study.study is not None:
        StudyStore(resources.storage, study.study)
    Size.of(study.train_size, study.shots)


def own_files(task: str, own: o.OwnFileOptions) -> "CustomTask | None":
    """Return the custom task that the options for the user's own file describe; None for others.

    Raises:
        SclsearchError: The options come with a named task, or the text or label column is missing.
    """
    given = {name: value for name, value in asdict(own).items() if value not in (None, False)}
    if not given:
        return None
    from sclsearch.tasks import TASKS

    named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if task in TASKS and not Path(task).exists():
        raise SclsearchError(
            f"{named}: describes a file of your own, but {task} is a task of `sclsearch ls tasks`. "
            "Leave it out."
        )
    if not own.text or own.label is None:
        raise SclsearchError(
            f"{named}: a file of your own needs --text and --label. Pass both, or neither with a "
            "named task."
        )
    from sclsearch.tasks.custom import HUB_PREFIX, CustomTask

    given |= {"text": tuple(own.text), "fractions": o.parse_fractions(own.fractions)}
    if not task.startswith(HUB_PREFIX):
        return CustomTask(path=Path(task), **given)
    for name in ("validation", "test"):
        if name in given:
            raise SclsearchError(
                f"--{name} {given[name]}: cannot be combined with {task}, which has splits. Leave "
                "it out."
            )
    return CustomTask.from_hub(task, **given)
