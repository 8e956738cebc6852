"""Stored results of one study, read once for all sections of the page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sclsearch.reports.frames import stored_seed_runs
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.report import Report, tested_winner
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyRecord, existing_study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StudyResults:
    """Report of a study with the stored results behind it.

    Attributes:
        report: The report.
        record: The study's record.
        winner: The winning configuration.
        runs: Seed runs of all configurations without their predictions, by key.
        prefix: Prefix of anchors and file names; empty if the page has only one study.
    """

    report: Report
    record: StudyRecord
    winner: ConfigurationLine
    runs: Mapping[str, SeedRun]
    prefix: str

    @cached_property
    def of_winner(self) -> Report:
        """The report with the winner as its only configuration."""
        return replace(self.report, configurations=(self.winner,))

    @cached_property
    def predictions(self) -> "pd.DataFrame":
        """Predictions of the winner's seed runs; see `frames.prediction_frame`."""
        return self.of_winner.predictions()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes; empty in regression."""
        return tuple(map(str, self.record.origin.get("labels", ())))

    @property
    def seconds(self) -> float:
        """Training time of all seed runs."""
        return sum(run.seconds for run in self.runs.values())


def read_results(report: Report, prefix: str) -> StudyResults:
    """Return the results of a study."""
    winner = tested_winner(report)
    _, record = existing_study(report.storage, report.study)
    # Predictions of thousands of seed runs would fill the memory.
    runs = {run.key: replace(run, predictions={}) for _, _, run in stored_seed_runs(report)}
    return StudyResults(report, record, winner, runs, prefix)
