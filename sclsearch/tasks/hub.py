"""Loader for corpora on the Hugging Face hub."""

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
"""Timeout in seconds for the first response of the hub."""

logger = logging.getLogger(__name__)


def fetch(corpus: Corpus) -> TaskData:
    """Download a corpus, or load it from the hub's cache.

    Raises:
        SclsearchError: The hub does not have the corpus, or the labels are not the task's. Or the
            hub is unreachable and the cache does not have the corpus. Or the cache is not writable.
    """
    import datasets
    from datasets.exceptions import DatasetsError

    hub = _hub(corpus)
    offline = datasets.config.HF_HUB_OFFLINE
    # If the hub is unreachable, datasets would retry for half a minute with long messages.
    datasets.config.HF_HUB_OFFLINE = offline or not _answers(hub)
    try:
        found = datasets.load_dataset(hub.repository, hub.config, revision=hub.revision)
    # ValueError: the cache has only other tasks.
    except (OSError, ValueError, DatasetsError) as error:
        raise SclsearchError(
            f"{hub.repository}: {corpus.task.name} must be on the hub or in its cache, "
            f"but: {_reason(error)}. {corpus.ways}"
        ) from error
    finally:
        datasets.config.HF_HUB_OFFLINE = offline
    return convert(corpus, found)


def convert(corpus: Corpus, found: Mapping[str, Any]) -> TaskData:
    """Return the hub's rows in the form of the corpus's own files.

    Args:
        corpus: The corpus.
        found: A `datasets.Dataset` for each split. Splits that the files lack, or have without
            labels, are ignored.

    Raises:
        SclsearchError: The labels have other names or another order, or a row has no label.
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
    """Return True if the hub is reachable; `datasets` reports all other errors."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    try:
        HfApi().dataset_info(hub.repository, revision=hub.revision, timeout=SECONDS)
    except (HfHubHTTPError, ValueError):  # the hub answers with an error, or the name is a folder's
        return True
    except Exception:
        logger.debug("the hub cannot be reached", exc_info=True)
        return False
    return True


def _reason(error: Exception) -> str:
    """Return the reason of an error; for a failed file creation, that of its cause."""
    return str(error) if error.__cause__ is None else f"{error} ({error.__cause__})"


def _source(hub: Hub, found: Mapping[str, Any]) -> str:
    """Return the origin of the rows: the hub revision, or the cached ones when offline."""
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
