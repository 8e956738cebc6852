"""Callbacks for search events."""

from typing import Protocol

from sclsearch.search.scores import ConfigurationScore
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.study.seed_runs import SeedRunTask


class Callback(Protocol):
    """Who is told of what happens."""

    def opened(self, configuration: ConfigurationRecord) -> None:
        """A configuration has been opened."""

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """A seed run is finished; `stored` if it was so before this driver started."""

    def scored(self, figures: ConfigurationScore) -> None:
        """All seed runs of a configuration are finished."""
