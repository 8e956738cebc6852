"""Callbacks for search events."""

from typing import Protocol

from sclsearch.search.scores import ConfigurationScore
from sclsearch.store.records import ConfigurationRecord
from sclsearch.store.runs import SeedRun
from sclsearch.study.seed_runs import SeedRunTask


class Callback(Protocol):
    """Interface of callbacks for search events."""

    def opened(self, configuration: ConfigurationRecord) -> None:
        """Handle a configuration that the search has just opened."""

    def finished(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """Handle a finished seed run; `stored` is True if the store held it before this search."""

    def scored(self, figures: ConfigurationScore) -> None:
        """Handle a configuration whose seed runs have all finished."""
