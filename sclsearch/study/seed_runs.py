"""Seed runs that a study still has to train."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sclsearch.store.records import ConfigurationRecord, ReplicateRecord

SeedRunId = tuple[int, int]
"""Numbers of configuration and replicate."""


@dataclass(frozen=True, slots=True)
class SeedRunTask:
    """A seed run to train.

    Attributes:
        configuration: Its configuration.
        replicate: Its replicate.
        identity: Everything that determines its result.
        key: SHA-256 of the identity; its name in the run store.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str

    @property
    def id(self) -> SeedRunId:
        """Numbers of configuration and replicate."""
        return self.configuration.number, self.replicate.number
