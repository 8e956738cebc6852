"""Run of `tune` and `train` in the terminal: progress, results, next commands and exit code."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import counted
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError
from sclsearch.methods import is_own
from sclsearch.store.storage import storage_option

if TYPE_CHECKING:
    from rich.console import Console

    from sclsearch.reports.comparison import StudyComparison
    from sclsearch.reports.report import Report
    from sclsearch.search.run import SearchResult
    from sclsearch.study.spec import RunOptions, StudySpec

MOST = 10
"""Configurations that the ranking shows at the end of a search; `select` shows more."""
MOST_IN_TURN = 3
"""The same for each of several methods, whose comparison follows."""


def run_search(spec: "StudySpec", options: "RunOptions", *, as_json: bool) -> None:
    """Run one study, print its report, and exit."""
    from rich.console import Console

    from sclsearch.api import report_of
    from sclsearch.cli.hints import show_next_commands, winner_commands
    from sclsearch.cli.output import print_json
    from sclsearch.search.run import run

    progress = Console(stderr=True)
    done = run(spec, options, progress)
    found = report_of(done)
    if as_json:
        print_json(_as_json(found))
    else:
        console = Console()
        _show(console, found, done, MOST)
        usable = found.winner is not None
        own = spec.method if isinstance(spec.method, str) and is_own(spec.method) else ""
        commands = winner_commands(done.name, options.rule, done.storage, usable=usable, method=own)
        show_next_commands(console, commands)
    _show_ending(progress, done, options)
    sys.exit(_exit_code(done))


def run_in_turn(
    methods: Sequence[str], spec: "StudySpec", options: "RunOptions", *, as_json: bool
) -> None:
    """Search several methods in turn, print their reports and their comparison, and exit."""
    from rich.console import Console

    from sclsearch.api import report_of
    from sclsearch.cli.output import print_json
    from sclsearch.search.equal_budget import prepare_methods, run_methods

    progress, console = Console(stderr=True), Console(quiet=as_json)
    searches = prepare_methods(methods, spec, options)
    reports: list[Report] = []
    errors: dict[str, str] = {}
    codes = {0}
    try:
        for result in run_methods(searches, progress):
            if result.done is None:
                errors[result.method] = str(result.error)
                fault = f"{result.method}: {result.error}"
                progress.print(fault, style="red", markup=False, soft_wrap=True)
                continue
            reports.append(report_of(result.done))
            _show(console, reports[-1], result.done, MOST_IN_TURN)
            console.print()
            _show_ending(progress, result.done, options)
            codes.add(_exit_code(result.done))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        codes.add(INTERRUPTED)
    comparison = _compared(reports, len(methods), progress)
    if as_json:
        compared = asdict(comparison) if comparison else {}
        print_json({**compared, "reports": list(map(_as_json, reports)), "errors": errors})
    elif comparison:
        _show_comparison(console, comparison, options)
    sys.exit(2 if errors and INTERRUPTED not in codes else max(codes))


def print_plans(
    methods: Sequence[str], spec: "StudySpec", options: "RunOptions", *, as_json: bool
) -> None:
    """Print the number of seed runs of each of several methods, and an estimate of their time."""
    from rich.console import Console

    from sclsearch.cli.output import print_json, show_plans
    from sclsearch.search.equal_budget import prepare_methods
    from sclsearch.search.estimate import finished
    from sclsearch.search.plan import plan_prepared

    searches = prepare_methods(methods, spec, options, dry=True)
    stored = partial(finished, options.storage)
    plans = [plan_prepared(one.prepared, one.options, stored) for one in searches]
    if as_json:
        print_json({"plans": [{**asdict(plan), "seed_runs": plan.seed_runs} for plan in plans]})
    else:
        show_plans(Console(), [one.method for one in searches], plans)


def _as_json(found: "Report") -> dict[str, Any]:
    return {**asdict(found), "winner": found.winner and found.winner.number}


def _show(console: "Console", found: "Report", done: "SearchResult", most: int) -> None:
    from sclsearch.reports.terminal import show, show_savings

    show(console, found, most=most)
    show_savings(console, found, skipped=done.skipped, reused=done.reused)


def _compared(
    reports: "Sequence[Report]", methods: int, progress: "Console"
) -> "StudyComparison | None":
    """Return the comparison of the finished studies; None, with a message, if there is none."""
    from sclsearch.reports.comparison import compare_studies

    some = sum(any(line.seeds for line in one.configurations) for one in reports)
    if some < 2:
        progress.print(f"No comparison: {some} of {methods} methods have results.")
        return None
    try:
        return compare_studies(reports)
    except SclsearchError as error:
        progress.print(f"No comparison: {error}", markup=False, soft_wrap=True)
        return None


def _show_comparison(console: "Console", found: "StudyComparison", options: "RunOptions") -> None:
    from sclsearch.cli.hints import show_next_commands, ui_command
    from sclsearch.reports.comparison_tables import show_comparison

    show_comparison(console, found)
    names = " ".join(one.study for one in found.studies)
    rule = f" --rule {options.rule}" if options.rule else ""
    where = f"{rule}{storage_option(options.storage)}"
    commands = [
        (f"compare {names}{where}", "compare again, without training"),
        (f"select {found.studies[0].study}{where}", "show the reference's full ranking"),
    ]
    show_next_commands(console, [*commands, *ui_command(options.tracking, options.storage)])


def _exit_code(done: "SearchResult") -> int:
    """Return 0 if every seed run that was asked for has succeeded and has its test score."""
    if done.ending == "interrupted":
        return INTERRUPTED
    return INCOMPLETE if done.failed or done.to_test or done.ending != "complete" else 0


def _show_ending(progress: "Console", done: "SearchResult", options: "RunOptions") -> None:
    """Print what MLflow lacks, and the reason for an early end."""
    if done.tracking:
        command = f"sclsearch track {done.name}{_stored(done, options)}"
        progress.print(f"MLflow: {done.tracking}. `{command}` completes it.", soft_wrap=True)
    if done.ending != "complete":
        why = "Stopped" if done.ending == "interrupted" else "The time budget is used"
        tests = f", {done.to_test} to test" if done.to_test else ""
        progress.print(
            f"{why}: {done.done} of {done.wanted} seed runs{tests}. Run the same command again to "
            "resume."
        )
    elif done.to_test:
        progress.print(
            f"{counted(done.to_test, 'seed run')} could not be tested. Run the same command again "
            "to try once more."
        )


def _stored(done: "SearchResult", options: "RunOptions") -> str:
    """Return the command line options for a study's storage and MLflow URI."""
    from sclsearch.tracking import NO_DATABASE
    from sclsearch.tracking.server import masked

    named = "URI" if done.tracking == NO_DATABASE else options.tracking
    uri = f" --tracking {shlex.quote(masked(named))}" if named else ""
    return f"{storage_option(done.storage)}{uri}"
