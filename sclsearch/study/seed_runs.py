"""Seed runs that a study has yet to train."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sclsearch.store.records import ConfigurationRecord, ReplicateRecord

SeedRunId = tuple[int, int]
"""Configuration number and replicate number."""


@dataclass(frozen=True, slots=True)
class SeedRunTask:
    """A seed run to train.

    Attributes:
        configuration: The record of its configuration.
        replicate: The record of its replicate.
        identity: Everything that determines its result.
        key: SHA-256 of the identity; names the seed run in the run store.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str

    @property
    def id(self) -> SeedRunId:
        """Configuration number and replicate number."""
        return self.configuration.number, self.replicate.number
