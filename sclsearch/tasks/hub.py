"""Corpora from the Hugging Face hub."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.tasks.base import Labels, Split, TaskData, Texts
from sclsearch.tasks.corpus import SCORE_DECIMALS, Corpus, Hub

BATCH = 10_000
SECONDS = 10
"""How long the hub may take to answer at all."""

logger = logging.getLogger(__name__)


def fetch(corpus: Corpus) -> TaskData:
    """Fetches a corpus, or takes it from the hub's cache.

    Raises:
        SclsearchError: The hub does not have the corpus, or cannot be reached and its cache does
            not have it, or it cannot be kept there, or its labels are not the task's.
    """
    import datasets
    from datasets.exceptions import DatasetsError

    hub = _hub(corpus)
    offline = datasets.config.HF_HUB_OFFLINE
    # Where the hub cannot be reached, datasets would ask again for half a minute, at length.
    datasets.config.HF_HUB_OFFLINE = offline or not _answers(hub)
    try:
        found = datasets.load_dataset(hub.repository, hub.config, revision=hub.revision)
    # ValueError: the cache has other tasks alone.
    except (OSError, ValueError, DatasetsError) as error:
        raise SclsearchError(
            f"{hub.repository}: {corpus.task.name} must be on the hub or in its cache, "
            f"but: {_reason(error)}. {corpus.ways}"
        ) from error
    finally:
        datasets.config.HF_HUB_OFFLINE = offline
    return convert(corpus, found)


def convert(corpus: Corpus, found: Mapping[str, Any]) -> TaskData:
    """Returns the hub's rows as they are read from the corpus's own files.

    Args:
        corpus: The corpus.
        found: A `datasets.Dataset` for each split; those that the files lack, or have without
            labels, are left aside.

    Raises:
        SclsearchError: The labels have other names or another order, or a row has none.
    """
    hub = _hub(corpus)
    splits = {}
    for split in corpus.files:
        there = hub.splits.get(split, split)
        rows = found[there]
        where = f"{hub.repository}: {corpus.task.name}: {there}"
        names = getattr(rows.features["label"], "names", [])
        _check_names(names, hub.names or corpus.task.labels, where)
        splits[split] = Split(
            _texts(corpus, hub.columns, rows),
            _labels(rows["label"], where, regression=corpus.task.regression),
        )
    return TaskData(corpus.task, splits, _source(hub, found))


def _answers(hub: Hub) -> bool:
    """Returns whether the hub can be reached; what else is wrong, `datasets` finds and tells."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(hub.repository, revision=hub.revision, timeout=SECONDS)
    except (HfHubHTTPError, ValueError):  # it answers with an error, or the name is a folder's
        return True
    except Exception:
        logger.debug("the hub cannot be reached", exc_info=True)
        return False
    return True


def _reason(error: Exception) -> str:
    """Returns what went wrong; that a file could not be made has its reason in what caused it."""
    return str(error) if error.__cause__ is None else f"{error} ({error.__cause__})"


def _source(hub: Hub, found: Mapping[str, Any]) -> str:
    """Returns where rows are from: where the hub cannot be reached, whatever its cache has."""
    files = [Path(file["filename"]) for rows in found.values() for file in rows.cache_files]
    others = sorted({file.parent.name[:8] for file in files} - {hub.revision[:8]})
    if others:
        return f"{hub.repository} at {' and '.join(others)}, which the hub's cache has"
    return f"{hub.repository} at {hub.revision[:8]}"


def _hub(corpus: Corpus) -> Hub:
    if corpus.hub is None:
        raise SclsearchError(
            f"--data-dir: a folder with {corpus.task.name}'s files must be named, for the hub "
            f"lacks them, but there is none. {corpus.ways}"
        )
    return corpus.hub


def _check_names(names: list[str], labels: tuple[str, ...], where: str) -> None:
    if tuple(names) != labels:
        raise SclsearchError(
            f"{where}: the labels must be {list(labels)}, but they are {names}. "
            "Clear the hub's cache."
        )


def _texts(corpus: Corpus, columns: tuple[str, ...], rows: Any) -> tuple[Texts, ...]:
    texts: list[Texts] = []
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        cells = zip(*(batch[column] for column in columns), strict=True)
        texts += map(corpus.texts, cells)
    return tuple(texts)


def _labels(column: Any, where: str, *, regression: bool) -> Labels:
    if regression:
        return np.array(column[:], np.float64).round(SCORE_DECIMALS)
    y = np.array(column[:], np.int64)
    if (y < 0).any():
        raise SclsearchError(
            f"{where}: every row must have a label, but {int((y < 0).sum())} have none. "
            "Clear the hub's cache."
        )
    return y
