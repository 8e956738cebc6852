"""Evaluation of a study's winner on other replicates: new seeds, or crossed seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner, report
from sclsearch.search.plan import Plan, plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run_prepared
from sclsearch.selection.rules import parse_rule
from sclsearch.selection.variance import Observation, Spread, components, design
from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import SeedRun
from sclsearch.store.storage import storage_option
from sclsearch.store.studies import existing_study
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import (
    check_unchanged,
    restore_data_dir,
    restore_method,
    restore_spec,
    restore_spec_as_before,
)
from sclsearch.study.spec import RunOptions, StudySpec

Stored = Callable[[], Sequence[SeedRun]]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Reports of a study's winner: on the replicates that chose it, and on new ones.

    Attributes:
        chosen: The study's report.
        fresh: The report on the new replicates.
    """

    chosen: Report
    fresh: Report


def confirm(study: str, count: int, options: RunOptions, console: Console) -> Confirmation:
    """Train a study's winner on replicates beyond those of the protocol and of the study.

    Args:
        study: Name of the study.
        count: Number of new replicates.
        options: Run options; the storage is that of the study.
        console: Console for the progress.

    Raises:
        SclsearchError: The study does not exist, has no winner, is a repetition itself, or its
            inputs have changed.
        KeyboardInterrupt: The run was stopped; the same call resumes it.
    """
    chosen, spec = _fresh(study, count, options)
    return Confirmation(chosen, _again(study, spec, options, console))


def plan_confirmation(study: str, count: int, options: RunOptions, finished: Stored) -> Plan:
    """Return the plan of `confirm`, without training.

    Raises:
        SclsearchError: See `confirm`.
    """
    _, spec = _fresh(study, count, options)
    return _planned(study, spec, options, finished)


def _fresh(study: str, count: int, options: RunOptions) -> tuple[Report, StudySpec]:
    chosen, winner = _winner(study, options)
    store, record = existing_study(options.storage, study)
    if record.repeats:
        raise SclsearchError(
            f"{study}: it must be a study that chose its winner, but it repeats the winner of "
            "another. Name that one."
        )
    first = len(store.replicates())
    return chosen, restore_spec(
        record.origin,
        winner.fields,
        method=_method(record, options),
        fresh=count,
        first_fresh=first,
    )


def variance(
    study: str, levels: Mapping[str, int], options: RunOptions, console: Console
) -> Spread:
    """Train a study's winner over crossed seeds and return the sources of the score's variance.

    Args:
        study: Name of the study.
        levels: Number of seeds of subset, initialization and order.
        options: Run options; the storage is that of the study.
        console: Console for the progress.

    Raises:
        SclsearchError: The study does not exist, has no winner, or has identical subsets; or its
            inputs have changed; or seed runs failed, since the crossing must be complete.
        KeyboardInterrupt: The run was stopped; the same call resumes it.
    """
    chosen, spec = _crossing(study, levels, options)
    found = _again(study, spec, options, console)
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
            Observation(cell["subset"], cell["initialization"], cell["order"], test)
            for cell, test in zip(cells, tests, strict=True)
        ]
    )
    drawn = {rows["train"] for rows in chosen.rows}
    return replace(spread, one_subset=levels.get("subset", 1) == 1 and len(drawn) > 1)


def plan_variance(
    study: str, levels: Mapping[str, int], options: RunOptions, finished: Stored
) -> Plan:
    """Return the plan of `variance`, without training.

    Raises:
        SclsearchError: See `variance`.
    """
    _, spec = _crossing(study, levels, options)
    return _planned(study, spec, options, finished)


def _crossing(
    study: str, levels: Mapping[str, int], options: RunOptions
) -> tuple[Report, StudySpec]:
    design(levels)  # raises if no source varies
    chosen, winner = _winner(study, options)
    _, record = existing_study(options.storage, study)
    return chosen, restore_spec(
        record.origin, winner.fields, method=_method(record, options), crossed=levels
    )


def _method(record: StudyRecord, options: RunOptions) -> str | type[Any] | None:
    digest = record.training.get("method_file", "")
    return restore_method(record.origin, digest, options.custom_method, f"study {record.name}")


def _winner(study: str, options: RunOptions) -> tuple[Report, ConfigurationLine]:
    chosen = report(
        options.storage, study, None if options.rule is None else parse_rule(options.rule)
    )
    return chosen, finished_winner(chosen)


def _again(study: str, spec: StudySpec, options: RunOptions, console: Console) -> Report:
    options, prepared = _prepared(study, spec, options)
    done = run_prepared(prepared, options, console)
    if done.ending != "complete":
        raise KeyboardInterrupt
    return report(done.storage, done.name, done.rule, done.seeds, done.configs)


def _planned(study: str, spec: StudySpec, options: RunOptions, finished: Stored) -> Plan:
    options, prepared = _prepared(study, spec, options, dry=True)
    return plan_prepared(prepared, options, finished)


def _prepared(
    study: str, spec: StudySpec, options: RunOptions, *, dry: bool = False
) -> tuple[RunOptions, PreparedStudy]:
    store, record = existing_study(options.storage, study)
    # The study's rule chose the winner; the repetition uses the rule of its own protocol.
    options = replace(
        options, rule=None, data_dir=restore_data_dir(record.origin, options.data_dir)
    )
    if record.origin.get("paraphrases"):
        before = restore_spec_as_before(record.origin, spec.settings, spec.method)
        first = store.replicates()[0]
        check_unchanged(study, "the study", first.rows, resolve(before, options).splits(0).digests)
    prepared = prepare_study(spec, options, dry=dry)
    _check(study, record, prepared)
    return options, prepared


def _check(study: str, record: StudyRecord, prepared: PreparedStudy) -> None:
    """Reject a repetition whose inputs differ from the study's, or whose subsets are too few."""
    # Device differences are allowed: a confirmation on other devices is useful.
    before = {name: value for name, value in record.training.items() if name != "numerics"}
    check_unchanged(study, "the study", before, prepared.record.training)
    subsets = (prepared.record.origin["crossed"] or {}).get("subset", 1)
    drawn = {replicate.rows["train"] for replicate in prepared.replicates}
    if subsets > len(drawn):
        raise SclsearchError(
            f"--subsets {subsets}: training rows must differ between subsets, but {study} has "
            f"{len(drawn)} different of {subsets}. Leave it out."
        )
