"""A study's winner trained on other replicates: fresh ones, or a crossing of seeds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import ConfigurationLine, Report, report
from sclsearch.search.again import path_again, what_again
from sclsearch.search.options import How
from sclsearch.search.run import Finished, run
from sclsearch.selection.ranking import mean_std
from sclsearch.selection.variance import Observation, Spread, components, design
from sclsearch.store.studies import existing_study


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The winner of a study as it was chosen, and on replicates that did not choose it.

    Attributes:
        chosen: The study's report.
        plain: Mean and standard deviation of the test figure over all seeds of the winner that
            did not fail.
        fresh: The report on the fresh replicates.
    """

    chosen: Report
    plain: tuple[float, float | None]
    fresh: Report


def confirm(study: str, count: int, how: How, console: Console) -> Confirmation:
    """Trains a study's winner on fresh replicates.

    Args:
        study: The study's name.
        count: Fresh replicates.
        how: How they are trained; its storage is that of the study.
        console: Where progress is shown.

    Raises:
        SclsearchError: There is no such study, or it has no winner.
    """
    chosen, winner = _winner(study, how)
    done = _again(study, winner, how, console, fresh=count)
    return Confirmation(chosen, plain(winner), report(done.storage, done.name))


def variance(study: str, levels: Mapping[str, int], how: How, console: Console) -> Spread:
    """Trains a study's winner over crossed seeds and says where the spread comes from.

    Args:
        study: The study's name.
        levels: Seeds of subset, initialisation and order.
        how: How they are trained; its storage is that of the study.
        console: Where progress is shown.

    Raises:
        SclsearchError: There is no such study, it has no winner, or seed runs failed or are
            missing: the crossing must be full.
    """
    cells = design(levels)
    chosen, winner = _winner(study, how)
    if chosen.size is None and levels.get("subset", 1) > 1:
        raise SclsearchError(
            f"--subsets {levels['subset']}: {study} trains on all rows, so there is 1 subset. "
            "Leave it out."
        )
    done = _again(study, winner, how, console, crossed=levels)
    line = report(done.storage, done.name).winner
    tests = {seed.replicate: seed.test for seed in line.seeds} if line else {}
    return components(
        [
            Observation(
                cell["subset"], cell["initialisation"], cell["order"], tests.get(cell["number"])
            )
            for cell in cells
        ]
    )


def plain(line: ConfigurationLine) -> tuple[float, float | None]:
    """Returns mean and standard deviation of the test figure over all seeds that did not fail."""
    return mean_std([seed.test for seed in line.seeds if seed.test is not None])


def _winner(study: str, how: How) -> tuple[Report, ConfigurationLine]:
    chosen = report(how.storage, study)
    if chosen.winner is None:
        raise SclsearchError(
            f"{study}: a configuration must be finished, but none is. Run the same `tune` again."
        )
    return chosen, chosen.winner


def _again(
    study: str,
    winner: ConfigurationLine,
    how: How,
    console: Console,
    *,
    fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
) -> Finished:
    record = existing_study(how.storage, study).record()
    if record is None:
        raise SclsearchError(f"{study}: the study was deleted just now.")
    what = what_again(record.origin, winner.fields, fresh=fresh, crossed=crossed)
    data_dir = how.data_dir or path_again(record.origin["data_dir"])
    return run(what, replace(how, data_dir=data_dir), console)
