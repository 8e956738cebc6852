"""Conversion of option groups to `StudySpec` and `RunOptions`.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from dataclasses import asdict
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
    study: o.StudyOptions, resources: o.ResourceOptions, task: "str | CustomTask"
) -> None:
    """Raise SclsearchError for an unknown name or an unused data folder, before slow imports."""
    from sclsearch.methods import check_method_name
    from sclsearch.protocols import find_protocol
    from sclsearch.protocols.base import Size
    from sclsearch.protocols.variants import SCALES
    from sclsearch.selection.rules import parse_rule
    from sclsearch.store.studies import StudyStore
    from sclsearch.tasks import check_data_dir

    check_method_name(study.method)
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
