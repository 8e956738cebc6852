"""Run of `tune` and `train` in the terminal: progress, results, next commands and exit code.

This module imports the search at once; the commands import it when they start one.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shutil import which

from rich.console import Console

from sclsearch.canonical import counted
from sclsearch.cli.output import print_json, report_json, show_plans
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError
from sclsearch.reports.commands import confirm_command
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.comparison_tables import show_comparison
from sclsearch.reports.report import Report
from sclsearch.reports.terminal import show, show_savings
from sclsearch.search.plan import finished, plan_prepared
from sclsearch.search.prepare import prepare_methods, unequal_rates
from sclsearch.search.run import run, run_methods
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.storage import Storage, storage_option
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import TASKS
from sclsearch.tracking.server import find_tracking_uri

WIDTH = 80
MOST = 10
"""Configurations that the ranking shows at the end of a search; `show` shows more."""
MOST_IN_TURN = 3
"""The same for each of several methods, whose comparison follows."""


def run_search(spec: StudySpec, options: RunOptions, *, as_json: bool) -> None:
    """Run one study, print its report, and exit."""
    progress = Console(stderr=True)
    done = run(spec, options, progress)
    found = done.report()
    if as_json:
        print_json(report_json(found))
    else:
        console = Console()
        _show(console, found, done, MOST)
        _show_next_commands(console, _winner_commands(found, options.rule))
    _show_ending(progress, done)
    sys.exit(_exit_code(done))


def run_in_turn(
    methods: Sequence[str], spec: StudySpec, options: RunOptions, *, as_json: bool
) -> None:
    """Search several methods in turn, print their reports and their comparison, and exit."""
    progress, console = Console(stderr=True), Console(quiet=as_json)
    studies = prepare_methods(methods, spec, options)
    reports: list[Report] = []
    errors: dict[str, str] = {}
    codes = {0}
    try:
        for method, done in run_methods(studies, progress):
            if isinstance(done, SclsearchError):
                errors[method] = str(done)
                progress.print(f"{method}: {done}", style="red", markup=False, soft_wrap=True)
                continue
            reports.append(done.report())
            _show(console, reports[-1], done, MOST_IN_TURN)
            console.print()
            _show_ending(progress, done)
            codes.add(_exit_code(done))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        codes.add(INTERRUPTED)
    comparison = _compared(reports, len(methods), progress)
    if as_json:
        compared = asdict(comparison) if comparison else {}
        print_json({**compared, "reports": list(map(report_json, reports)), "errors": errors})
    elif comparison:
        _show_comparison(console, comparison, options)
    sys.exit(2 if errors and INTERRUPTED not in codes else max(codes))


def print_plans(
    methods: Sequence[str], spec: StudySpec, options: RunOptions, *, as_json: bool
) -> None:
    """Print the number of seed runs of each of several methods, and an estimate of their time."""
    studies = prepare_methods(methods, spec, options, dry=True)
    stored = partial(finished, options.storage)
    plans = [plan_prepared(one, stored) for one in studies]
    warning = unequal_rates(studies)
    if as_json:
        print_json({"plans": plans, "warning": warning})
    else:
        show_plans(Console(), methods, plans, warning)


def _show(console: Console, found: Report, done: Scheduler, most: int) -> None:
    show(console, found, most=most)
    show_savings(console, found, skipped=done.skipped, reused=done.reused)


def _compared(reports: Sequence[Report], methods: int, progress: Console) -> StudyComparison | None:
    """Return the comparison of the finished studies; None, with a message, if there is none."""
    some = sum(any(line.seeds for line in one.configurations) for one in reports)
    if some < 2:
        progress.print(f"No comparison: {some} of {methods} methods have results.")
        return None
    try:
        return compare_studies(reports)
    except SclsearchError as error:
        progress.print(f"No comparison: {error}", markup=False, soft_wrap=True)
        return None


def _show_comparison(console: Console, found: StudyComparison, options: RunOptions) -> None:
    show_comparison(console, found)
    names = " ".join(one.study for one in found.studies)
    where = _reading_options(options.rule, options.storage)
    commands = [
        (f"compare {names}{where}", "compare again, without training"),
        (f"show {found.studies[0].study}{where}", "show the reference's full ranking"),
        (f"report {names} --output report{where}", "write figures and tables"),
    ]
    if options.tracking is None:
        uri = find_tracking_uri(None, options.storage)
        if uri is not None and uri.startswith("sqlite"):
            named = os.environ.get("MLFLOW_TRACKING_URI")
            storage = "" if named else storage_option(options.storage)
            commands.append((f"ui{storage}", "browse all runs in MLflow"))
    _show_next_commands(console, commands)


def _winner_commands(found: Report, rule: str | None) -> list[tuple[str, str]]:
    """Return the commands for the winner of a study, or for its ranking if it has none."""
    where = _reading_options(rule, found.storage)
    refit, effect = " --refit all", "train the winner on all rows"
    if found.task in TASKS:
        refit, effect = "", "save the winner as a model"
    if found.winner is None:
        return [(f"show {found.study}{where}", "show the ranking so far")]
    return [
        (f"report {found.study} --output report{where}", "write figures and tables"),
        (f"export {found.study} model{refit}{where}", effect),
        *(
            [(confirm_command(found).removeprefix("sclsearch "), "test the winner on new seeds")]
            if found.has_test
            else []
        ),
    ]


def _reading_options(rule: str | None, storage: Storage) -> str:
    return f"{f' --rule {rule}' if rule else ''}{storage_option(storage)}"


def _show_next_commands(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Print commands with their effects as lines that a shell accepts; add the program's name."""
    lines = [(f"sclsearch {command}", f"# {effect}") for command, effect in commands]
    if which("sclsearch") is None:
        activate = f"source {Path(sys.prefix) / 'bin' / 'activate'}"
        lines.insert(0, (activate, "# make the command available"))
    widest = max(len(command) for command, _ in lines)
    beside = all(len(f"  {' ' * widest}  {effect}") <= WIDTH for _, effect in lines)
    console.print("\nNext:", style="bold")
    for command, effect in lines:
        text = f"  {command:<{widest}}  {effect}" if beside else f"  {effect}\n  {command}"
        console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def _exit_code(done: Scheduler) -> int:
    """Return 0 if every seed run that was asked for has succeeded and has its test score."""
    if done.ending == "interrupted":
        return INTERRUPTED
    return INCOMPLETE if done.failed or done.to_test or done.ending != "complete" else 0


def _show_ending(progress: Console, done: Scheduler) -> None:
    """Print what MLflow lacks, and the reason for an early end."""
    if done.tracking:
        missing = f"MLflow: {done.tracking}. The same command completes it."
        progress.print(missing, markup=False, soft_wrap=True)
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
