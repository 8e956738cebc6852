"""What was asked for once, made again from what the store says of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.methods import find_recorded_method
from sclsearch.methods.fields import as_tuples
from sclsearch.study.spec import StudySpec
from sclsearch.tasks import check_data_dir
from sclsearch.tasks.custom import CustomTask

if TYPE_CHECKING:
    from sclsearch.methods.base import Method


def restore_spec(
    origin: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    method: "str | type[Method] | None" = None,
    fresh: int | None = None,
    first_fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
) -> StudySpec:
    """Returns one configuration as it was asked for, repeated as these say.

    Args:
        origin: Of a seed run or a study.
        fields: Every field of method and training.
        method: The method, where the origin names a file of code; None takes the origin's.
        fresh: So many replicates beyond the protocol's.
        first_fresh: The first of them where the protocol's own are not all that were used.
        crossed: Seeds of each source, all combined.
    """
    return StudySpec(
        method=origin["method"] if method is None else method,
        task=_task(origin["task"]),
        model=origin["model"],
        protocol=origin["protocol"],
        scale=origin.get("scale"),
        splits=origin.get("splits"),
        fresh=fresh,
        first_fresh=first_fresh,
        crossed=crossed,
        train_size=origin["train_size"],
        shots=origin["shots"],
        unlabeled=origin.get("unlabelled"),
        settings={name: as_tuples(value) for name, value in fields.items()},
        paraphrases=restore_path(origin.get("paraphrases")),
        searched=False,
    )


def restore_method(
    origin: Mapping[str, Any],
    digest: str,
    given: "str | type[Method] | None",
    where: str,
) -> "str | type[Method] | None":
    """Return the method to train again: that of the origin, or the given one if it is the same.

    Args:
        origin: Of a seed run or a study.
        digest: Recorded SHA-256 of the method's file; empty for a method of sclsearch.
        given: `FILE.py:CLASS` or a class, by which the caller allows its code to run.
        where: The seed run or study, for errors.

    Raises:
        SclsearchError: The origin names a file and nothing is given, or another file is.
    """
    found = find_recorded_method(origin["method"], digest, given, where)
    return given if found.digest else None


def restore_spec_as_before(
    origin: Mapping[str, Any],
    fields: Mapping[str, Any],
    method: "str | type[Method] | None" = None,
) -> StudySpec:
    """Returns what `what_again` does, repeated as it was before."""
    levels = origin.get("crossed")
    return restore_spec(
        origin,
        fields,
        method=method,
        fresh=origin.get("fresh"),
        first_fresh=origin.get("first_fresh"),
        # Release 0.1.0 spelled it `initialisation`.
        crossed=levels and {name.replace("isation", "ization"): n for name, n in levels.items()},
    )


def check_unchanged(
    where: str, thing: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raises SclsearchError if what a seed run or a study was made from is not what it was."""
    differing = [name for name in before if canonical(before[name]) != canonical(now.get(name))]
    if differing:
        raise SclsearchError(
            f"{where}: {', '.join(differing)} must be what {thing} was made from, but changed "
            "since. Take the same data, model and version of sclsearch."
        )


def restore_data_dir(origin: Mapping[str, Any], told: Path | None) -> Path | None:
    """Returns the folder of the tasks' files: as told, which the task must need, or as stored.

    Raises:
        SclsearchError: One is told in vain.
    """
    check_data_dir(_task(origin["task"]), told)
    return told or restore_path(origin["data_dir"])


def restore_path(stored: str | None) -> Path | None:
    """Returns the path that was stored, if one was."""
    return Path(stored) if stored else None


def _task(task: str | Mapping[str, Any]) -> str | CustomTask:
    if isinstance(task, str):
        return task
    paths = {n: Path(task[n]) for n in ("path", "validation", "test") if task[n] is not None}
    lists = {n: tuple(task[n]) for n in ("text", "fractions") if task[n] is not None}
    return CustomTask(**{**task, **paths, **lists})
