"""Conversion of option groups to `StudySpec` and `RunOptions`.

Names and paths are checked before torch, Ray and other slow packages are imported.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.arguments import expanded, fields_of
from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError, lookup
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

    check_method_name(study.method)
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
