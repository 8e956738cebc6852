"""Seed runs that a study has yet to train, and their stored form."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sclsearch.store.records import ConfigurationRecord, ReplicateRecord
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyStore

if TYPE_CHECKING:
    from torch import Tensor

    from sclsearch.training.result import TrainingResult

_LOG = logging.getLogger(__name__)

SeedRunId = tuple[int, int]
"""Configuration number and replicate number."""


@dataclass(frozen=True, slots=True)
class SeedRunTask:
    """A seed run to train, or to train again for a test score or its weights.

    Attributes:
        configuration: The record of its configuration.
        replicate: The record of its replicate.
        identity: Everything that determines its result.
        key: SHA-256 of the identity; names the seed run in the run store.
        test: Whether its result must have a test score.
        weights: Whether its weights are stored.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str
    test: bool = True
    weights: bool = False

    @property
    def id(self) -> SeedRunId:
        """Configuration number and replicate number."""
        return self.configuration.number, self.replicate.number

    def is_done(self, run: SeedRun) -> bool:
        """Return whether a stored seed run has all the scores that this task asks for."""
        return not (self.test and run.untested)


def with_result(run: SeedRun, result: "TrainingResult") -> SeedRun:
    """Return the seed run with the results of its training."""
    return replace(
        run,
        notes=result.notes,
        stages=tuple(result.stages),
        evaluations=tuple(result.evaluations),
        kept=result.kept,
        test=result.test,
        predictions=result.predictions,
        seconds=result.seconds,
    )


def stored_weights(store: StudyStore, key: str) -> "Mapping[str, Tensor] | None":
    """Return the stored weights of a seed run; None without any, with a warning if damaged."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    place = store.weights(key)
    content = place.read()
    try:
        return None if content is None else load(content)
    except SafetensorError as error:
        _LOG.warning("%s: damaged: %s. Delete it and repeat `sclsearch tune`.", place, error)
        return None
