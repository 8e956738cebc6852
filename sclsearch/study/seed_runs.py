"""Seed runs that a study has yet to train or to test."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sclsearch.store.records import ConfigurationRecord, ReplicateRecord
from sclsearch.store.runs import SeedRun

SeedRunId = tuple[int, int]
"""Configuration number and replicate number."""


@dataclass(frozen=True, slots=True)
class SeedRunTask:
    """A seed run to train, or to test if it is trained already.

    Attributes:
        configuration: The record of its configuration.
        replicate: The record of its replicate.
        identity: Everything that determines its result.
        key: SHA-256 of the identity; names the seed run in the run store.
        test: Whether its result must have a test score.
        weights_from: Lowest validation score with which a report may need its weights.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str
    test: bool = True
    weights_from: float = -math.inf

    @property
    def id(self) -> SeedRunId:
        """Configuration number and replicate number."""
        return self.configuration.number, self.replicate.number

    def is_done(self, run: SeedRun | None) -> bool:
        """Return whether a stored seed run is all that this task asks for."""
        return run is not None and not (self.test and run.untested)
