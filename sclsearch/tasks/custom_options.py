"""Checks of a custom task's options, and their form on the command line."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError, lookup
from sclsearch.tasks.metrics import METRICS

if TYPE_CHECKING:
    from pathlib import Path

    from sclsearch.tasks.custom import CustomTask


def check_options(files: "CustomTask") -> None:
    """Raise SclsearchError if columns, paths, splits and metric are inconsistent."""
    if len(files.text) not in {1, 2}:
        raise SclsearchError(
            f"--text: one column or two must be named, but there are {len(files.text)}."
        )
    split = () if files.split_column is None else (files.split_column,)
    columns = [*files.text, files.label, *split]
    if len(set(columns)) < len(columns):
        raise SclsearchError(
            f"--text, --label, --split-column: the columns must differ, but they are {columns}."
        )
    others = {
        "--validation, --test": files.validation or files.test,
        "--fractions": files.fractions,
    }
    given = [way for way, told in others.items() if told is not None]
    if files.split_column is not None and given:
        raise SclsearchError(
            f"--split-column, {', '.join(given)}: the column tells all splits, but there are other "
            "ways to them. Leave these out, or the column."
        )
    if files.fractions is not None:
        _check_fractions(files.fractions, files)
    if files.metric is not None:
        lookup(METRICS, files.metric, "metric")
    _check_paths(files)


def as_options(files: "str | CustomTask") -> Iterator[str]:
    """Yield the command-line options that describe the task; for a named task, its name."""
    if isinstance(files, str):
        yield from ("--task", files)
        return
    yield from ("--task", str(files.path))
    for column in files.text:
        yield from ("--text", column)
    yield from ("--label", files.label)
    others = {
        "--validation": files.validation,
        "--test": files.test,
        "--split-column": files.split_column,
        "--fractions": files.fractions and ",".join(map(str, files.fractions)),
        "--metric": files.metric,
    }
    for option, told in others.items():
        if told is not None:
            yield from (option, str(told))
    if files.regression:
        yield "--regression"


def _check_paths(files: "CustomTask") -> None:
    told = {"--task": files.path, "--validation": files.validation, "--test": files.test}
    options: dict[Path, str] = {}
    for option, path in told.items():
        if path is None:
            continue
        try:
            other = options.setdefault(path.resolve(), option)
        except (RuntimeError, ValueError) as error:  # circular links, or NUL
            raise SclsearchError(
                f"{option} {path}: must be a file's path, but: {error}."
            ) from error
        if other != option:
            raise SclsearchError(
                f"{option} {path}: it must be another file than that of {other}, but it is the "
                "same. Name a file with rows of its own, or leave it out."
            )


def _check_fractions(fractions: Sequence[float], files: "CustomTask") -> None:
    fits = len(fractions) == 3 and all(0 <= share <= 1 for share in fractions)
    if not fits or not fractions[0] or not math.isclose(sum(fractions), 1):
        raise SclsearchError(
            "--fractions: train > 0, validation and test must sum to 1, "
            f"but they are {list(fractions)}."
        )
    for split, path, share in zip(
        ("validation", "test"), (files.validation, files.test), fractions[1:], strict=True
    ):
        if path is not None and share:
            raise SclsearchError(
                f"--fractions: the share of {split} must be 0 beside --{split} {path}, but it is "
                f"{share:g}. Give 0, or leave out one of both."
            )
