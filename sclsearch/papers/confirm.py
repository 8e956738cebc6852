"""Evaluation of a study's winner on other replicates: new seeds, or crossed seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich.console import Console

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.search.plan import Plan, plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run_prepared
from sclsearch.selection.rules import parse_rule
from sclsearch.selection.variance import Observation, VarianceDecomposition, components, design
from sclsearch.store.runs import SeedRun
from sclsearch.store.storage import storage_option
from sclsearch.store.studies import existing_study
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import (
    check_unchanged,
    restore_data_dir,
    restore_spec_as_before,
    restore_study_spec,
)
from sclsearch.study.spec import RunOptions


def confirm(study: str, count: int, options: RunOptions, console: Console) -> tuple[Report, Report]:
    """Train a study's winner on `count` replicates beyond the protocol's and the study's.

    Returns:
        The report of the study, and the report of its winner on the new replicates.
    """
    chosen, options, prepared = _prepare_repetition(study, options, fresh=count)
    return chosen, _run(prepared, options, console)


def variance(
    study: str, levels: Mapping[str, int], options: RunOptions, console: Console
) -> VarianceDecomposition:
    """Train a study's winner over crossed seeds and return the sources of the score's variance.

    `levels` has the number of seeds of `subset`, `initialization` and `order`.

    Raises:
        SclsearchError: The study does not exist, has no winner, or has identical subsets; or its
            inputs have changed; or seed runs failed, since the crossing must be complete.
        KeyboardInterrupt: The run was stopped; the same call resumes it.
    """
    chosen, options, prepared = _prepare_repetition(study, options, crossed=levels)
    if not chosen.has_test:
        raise SclsearchError(
            f"{chosen.study}: has no test rows, so no test score varies. Search with test rows."
        )
    found = _run(prepared, options, console)
    cells = design(levels)
    tests = [seed.test for line in found.configurations for seed in line.seeds]
    failed = tests.count(None)
    if failed:
        raise SclsearchError(
            f"{found.study}: {failed} of {len(cells)} seed runs failed, but a crossing needs all. "
            f"`sclsearch select {found.study}{storage_option(found.storage)} --json` shows the "
            "reasons; --retry-failed trains them again."
        )
    spread = components(
        [
            Observation(cell["subset"], cell["initialization"], cell["order"], test)
            for cell, test in zip(cells, tests, strict=True)
        ]
    )
    drawn = {rows["train"] for rows in chosen.rows}
    return replace(spread, one_subset=levels.get("subset", 1) == 1 and len(drawn) > 1)


def plan_repetition(
    study: str,
    options: RunOptions,
    finished: Callable[[], Sequence[SeedRun]],
    *,
    fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
) -> Plan:
    """Return the plan of `confirm` (with `fresh`) or `variance` (with `crossed`).

    `finished` returns finished seed runs, for the time estimate. Nothing is trained. Errors are
    those of `confirm` and `variance`.
    """
    _, options, prepared = _prepare_repetition(
        study, options, fresh=fresh, crossed=crossed, dry=True
    )
    return plan_prepared(prepared, options, finished)


def _prepare_repetition(
    study: str,
    options: RunOptions,
    *,
    fresh: int | None = None,
    crossed: Mapping[str, int] | None = None,
    dry: bool = False,
) -> tuple[Report, RunOptions, PreparedStudy]:
    """Return the study's report, and its winner prepared for training on other replicates."""
    chosen = report(
        options.storage, study, None if options.rule is None else parse_rule(options.rule)
    )
    winner = finished_winner(chosen)
    store, record = existing_study(options.storage, study)
    if fresh is not None and record.repeats:
        raise SclsearchError(
            f"{study}: repeats the winner of another study. Give the name of that study."
        )
    replicates = store.replicates()
    spec = restore_study_spec(
        record,
        winner.fields,
        options.custom_method,
        fresh=fresh,
        first_fresh=None if fresh is None else len(replicates),
        crossed=crossed,
    )
    # Device differences are allowed: a confirmation on other devices is useful.
    may_differ = {"numerics"}
    if record.training["numerics"].partition("-")[0] != _device_kind(options):
        spec = replace(spec, precision="auto")
        may_differ.add("engine")  # devices have engine versions of their own
    # The study's rule chose the winner; the repetition uses the rule of its own protocol.
    data_dir = restore_data_dir(record.origin, options.data_dir)
    options = replace(options, rule=None, data_dir=data_dir)
    if record.origin.get("paraphrases"):
        before = resolve(restore_spec_as_before(record.origin, spec.settings, spec.method), options)
        check_unchanged(study, "the study", replicates[0].rows, before.splits(0).digests)
    prepared = prepare_study(spec, options, dry=dry)
    inputs = {name: value for name, value in record.training.items() if name not in may_differ}
    check_unchanged(study, "the study", inputs, prepared.record.training)
    subsets = (crossed or {}).get("subset", 1)
    drawn = {replicate.rows["train"] for replicate in prepared.replicates}
    if subsets > len(drawn):
        raise SclsearchError(
            f"--subsets {subsets}: {study} has only "
            f"{counted(len(drawn), 'different training subset')}. Leave it out."
        )
    return chosen, options, prepared


def _device_kind(options: RunOptions) -> str:
    """Return the kind of device that seed runs train on, `cuda` or `cpu`."""
    from sclsearch.training.device import backend_here

    if options.gpus_per_trial is None:
        return backend_here().device.type
    return "cuda" if options.gpus_per_trial else "cpu"


def _run(prepared: PreparedStudy, options: RunOptions, console: Console) -> Report:
    done = run_prepared(prepared, options, console)
    if done.ending != "complete":
        raise KeyboardInterrupt
    return done.report()
