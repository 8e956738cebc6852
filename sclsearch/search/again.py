"""What was asked for once, made again from what the store says of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.methods.fields import as_tuples
from sclsearch.search.options import What
from sclsearch.tasks import check_data_dir
from sclsearch.tasks.own import OwnFiles


def what_again(
    origin: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    fresh: int | None = None,
    first_fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
) -> What:
    """Returns one configuration as it was asked for, repeated as these say.

    Args:
        origin: Of a seed run or a study.
        fields: Every field of method and training.
        fresh: So many replicates beyond the protocol's.
        first_fresh: The first of them where the protocol's own are not all that were used.
        crossed: Seeds of each source, all combined.
    """
    return What(
        method=origin["method"],
        task=_task(origin["task"]),
        model=origin["model"],
        protocol=origin["protocol"],
        scale=origin.get("scale"),
        fresh=fresh,
        first_fresh=first_fresh,
        crossed=crossed,
        train_size=origin["train_size"],
        shots=origin["shots"],
        unlabelled=origin.get("unlabelled"),
        settings={name: as_tuples(value) for name, value in fields.items()},
        paraphrases=path_again(origin.get("paraphrases")),
        searched=False,
    )


def what_before(origin: Mapping[str, Any], fields: Mapping[str, Any]) -> What:
    """Returns what `what_again` does, repeated as it was before."""
    repeated = {way: origin.get(way) for way in ("fresh", "first_fresh", "crossed")}
    return what_again(origin, fields, **repeated)


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


def data_dir_again(origin: Mapping[str, Any], told: Path | None) -> Path | None:
    """Returns the folder of the tasks' files: as told, which the task must need, or as stored.

    Raises:
        SclsearchError: One is told in vain.
    """
    check_data_dir(_task(origin["task"]), told)
    return told or path_again(origin["data_dir"])


def path_again(stored: str | None) -> Path | None:
    """Returns the path that was stored, if one was."""
    return Path(stored) if stored else None


def _task(task: str | Mapping[str, Any]) -> str | OwnFiles:
    if isinstance(task, str):
        return task
    paths = {n: Path(task[n]) for n in ("path", "validation", "test") if task[n] is not None}
    lists = {n: tuple(task[n]) for n in ("text", "fractions") if task[n] is not None}
    return OwnFiles(**{**task, **paths, **lists})
