"""What was asked for once, made again from what the store says of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sclsearch.methods.fields import as_tuples
from sclsearch.search.options import What
from sclsearch.tasks.own import OwnFiles


def what_again(
    origin: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
) -> What:
    """Returns one configuration as it was asked for, repeated as before or otherwise.

    Args:
        origin: Of a seed run or a study.
        fields: Every field of method and training.
        fresh: So many replicates beyond the protocol's.
        crossed: Seeds of each source, all combined.
    """
    return What(
        method=origin["method"],
        task=_task(origin["task"]),
        model=origin["model"],
        protocol=origin["protocol"],
        scale=origin.get("scale"),
        fresh=fresh,
        crossed=crossed,
        train_size=origin["train_size"],
        shots=origin["shots"],
        settings={name: as_tuples(value) for name, value in fields.items()},
        paraphrases=path_again(origin.get("paraphrases")),
        searched=False,
    )


def path_again(stored: str | None) -> Path | None:
    """Returns the path that was stored, if one was."""
    return Path(stored) if stored else None


def _task(task: str | Mapping[str, Any]) -> str | OwnFiles:
    if isinstance(task, str):
        return task
    paths = {n: Path(task[n]) for n in ("path", "validation", "test") if task[n] is not None}
    lists = {n: tuple(task[n]) for n in ("text", "fractions") if task[n] is not None}
    return OwnFiles(**{**task, **paths, **lists})
