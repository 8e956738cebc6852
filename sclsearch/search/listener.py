"""What a board hands out, and who is told of what becomes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sclsearch.search.figures import Figures
from sclsearch.search.retries import Place
from sclsearch.store.records import ConfigurationRecord, ReplicateRecord
from sclsearch.store.runs import SeedRun


@dataclass(frozen=True, slots=True)
class SeedTask:
    """A seed run to be trained.

    Attributes:
        configuration: Its configuration.
        replicate: Its replicate.
        identity: Everything that determines its figures.
        key: Its name in the run store.
    """

    configuration: ConfigurationRecord
    replicate: ReplicateRecord
    identity: Mapping[str, Any]
    key: str

    @property
    def place(self) -> Place:
        """Numbers of configuration and replicate."""
        return self.configuration.number, self.replicate.number


class Listener(Protocol):
    """Who is told of what happens."""

    def opened(self, configuration: ConfigurationRecord) -> None:
        """A configuration has been opened."""

    def finished(self, task: SeedTask, run: SeedRun, *, stored: bool) -> None:
        """A seed run is finished; `stored` if it was so before this driver started."""

    def scored(self, figures: Figures) -> None:
        """All seed runs of a configuration are finished."""
