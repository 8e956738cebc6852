"""A study's winner trained on other replicates: fresh ones, or a crossing of seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.lines import ConfigurationLine
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.again import (
    check_unchanged,
    data_dir_again,
    method_again,
    what_again,
    what_before,
)
from sclsearch.search.options import How, What
from sclsearch.search.plan import Plan, plan_prepared
from sclsearch.search.prepare import Prepared, prepare_study
from sclsearch.search.resolve import resolve
from sclsearch.search.run import run_prepared
from sclsearch.selection.rules import parse_rule
from sclsearch.selection.variance import Observation, Spread, components, design
from sclsearch.store.places import storage_option
from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import existing_study

Stored = Callable[[], Sequence[SeedRun]]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The winner of a study as it was chosen, and on replicates that did not choose it.

    Attributes:
        chosen: The study's report.
        fresh: The report on the fresh replicates.
    """

    chosen: Report
    fresh: Report


def confirm(study: str, count: int, how: How, console: Console) -> Confirmation:
    """Trains a study's winner on fresh replicates: beyond the protocol's and the study's own.

    Args:
        study: The study's name.
        count: Fresh replicates.
        how: How they are trained; its storage is that of the study.
        console: Where progress is shown.

    Raises:
        SclsearchError: There is no such study, it has no winner, it is a repetition itself, or
            what it was made from has changed.
        KeyboardInterrupt: It was stopped; the same call goes on.
    """
    chosen, what = _fresh(study, count, how)
    return Confirmation(chosen, _again(study, what, how, console))


def plan_confirmation(study: str, count: int, how: How, finished: Stored) -> Plan:
    """Returns what `confirm` would do.

    Raises:
        SclsearchError: As it would.
    """
    _, what = _fresh(study, count, how)
    return _planned(study, what, how, finished)


def _fresh(study: str, count: int, how: How) -> tuple[Report, What]:
    chosen, winner = _winner(study, how)
    store, record = existing_study(how.storage, study)
    if record.repeats:
        raise SclsearchError(
            f"{study}: it must be a study that chose its winner, but it repeats the winner of "
            "another. Name that one."
        )
    first = len(store.replicates())
    return chosen, what_again(
        record.origin,
        winner.fields,
        method=_method(record, how),
        fresh=count,
        first_fresh=first,
    )


def variance(study: str, levels: Mapping[str, int], how: How, console: Console) -> Spread:
    """Trains a study's winner over crossed seeds and says where the spread comes from.

    Args:
        study: The study's name.
        levels: Seeds of subset, initialisation and order.
        how: How they are trained; its storage is that of the study.
        console: Where progress is shown.

    Raises:
        SclsearchError: There is no such study, it has no winner, its subsets are all the same,
            what it was made from has changed, or seed runs failed: the crossing must be full.
        KeyboardInterrupt: It was stopped; the same call goes on.
    """
    chosen, what = _crossing(study, levels, how)
    found = _again(study, what, how, console)
    cells = design(levels)
    tests = [seed.test for line in found.configurations for seed in line.seeds]
    failed = sum(test is None for test in tests)
    if failed:
        raise SclsearchError(
            f"{found.study}: every seed run of a crossing must finish, but {failed} of "
            f"{len(cells)} failed. `sclsearch select {found.study}{storage_option(found.storage)} "
            "--json` says why; --retry-failed trains them again."
        )
    spread = components(
        [
            Observation(cell["subset"], cell["initialisation"], cell["order"], test)
            for cell, test in zip(cells, tests, strict=True)
        ]
    )
    drawn = {rows["train"] for rows in chosen.rows}
    return replace(spread, one_subset=levels.get("subset", 1) == 1 and len(drawn) > 1)


def plan_variance(study: str, levels: Mapping[str, int], how: How, finished: Stored) -> Plan:
    """Returns what `variance` would do.

    Raises:
        SclsearchError: As it would.
    """
    _, what = _crossing(study, levels, how)
    return _planned(study, what, how, finished)


def _crossing(study: str, levels: Mapping[str, int], how: How) -> tuple[Report, What]:
    design(levels)  # raises where there is nothing to cross
    chosen, winner = _winner(study, how)
    _, record = existing_study(how.storage, study)
    return chosen, what_again(
        record.origin, winner.fields, method=_method(record, how), crossed=levels
    )


def _method(record: StudyRecord, how: How) -> str | type[Any] | None:
    digest = record.training.get("method_file", "")
    return method_again(record.origin, digest, how.own_method, f"study {record.name}")


def _winner(study: str, how: How) -> tuple[Report, ConfigurationLine]:
    chosen = report(how.storage, study, None if how.rule is None else parse_rule(how.rule))
    return chosen, finished_winner(chosen)


def _again(study: str, what: What, how: How, console: Console) -> Report:
    how, prepared = _prepared(study, what, how)
    done = run_prepared(prepared, how, console)
    if done.ending != "complete":
        raise KeyboardInterrupt
    return report(done.storage, done.name, done.rule, done.seeds, done.configs)


def _planned(study: str, what: What, how: How, finished: Stored) -> Plan:
    how, prepared = _prepared(study, what, how, dry=True)
    return plan_prepared(prepared, how, finished)


def _prepared(study: str, what: What, how: How, *, dry: bool = False) -> tuple[How, Prepared]:
    store, record = existing_study(how.storage, study)
    # The rule told who won; what repeats the winner is counted by that of its own protocol.
    how = replace(how, rule=None, data_dir=data_dir_again(record.origin, how.data_dir))
    if record.origin.get("paraphrases"):
        before = what_before(record.origin, what.settings, what.method)
        first = store.replicates()[0]
        check_unchanged(study, "the study", first.rows, resolve(before, how).parts(0).digests)
    prepared = prepare_study(what, how, dry=dry)
    _check(study, record, prepared)
    return how, prepared


def _check(study: str, record: StudyRecord, prepared: Prepared) -> None:
    """Refuses what would be trained on something else than the study, or in vain."""
    # The same figures are worth confirming on other devices.
    before = {name: value for name, value in record.training.items() if name != "numerics"}
    check_unchanged(study, "the study", before, prepared.record.training)
    subsets = (prepared.record.origin["crossed"] or {}).get("subset", 1)
    drawn = {replicate.rows["train"] for replicate in prepared.replicates}
    if subsets > len(drawn):
        raise SclsearchError(
            f"--subsets {subsets}: training rows must differ between subsets, but {study} has "
            f"{len(drawn)} different of {subsets}. Leave it out."
        )
