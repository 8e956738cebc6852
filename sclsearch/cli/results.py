"""Results of searches in the terminal: plans, rankings, next commands and exit codes.

This module imports the search at once; the commands import it when they start one.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import which
from textwrap import shorten
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sclsearch.canonical import counted, shown
from sclsearch.cli.output import print_json
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError
from sclsearch.papers.confirm import confirm, show_confirmation
from sclsearch.reports.commands import export_command, study_command
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.comparison_tables import show_comparison
from sclsearch.reports.report import Report
from sclsearch.reports.summary import Summary, summarize_comparison, summary_of
from sclsearch.reports.terminal import Terminal, grid, show, show_savings, show_summary
from sclsearch.reports.words import duration, expected_time, race_sentence
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_several, unequal_rates
from sclsearch.search.run import run, run_several
from sclsearch.search.scheduler import Scheduler
from sclsearch.spaces.space import searched_values
from sclsearch.study.spec import RunOptions, StudySpec

Plan = Mapping[str, Any]
"""Plan of a search, as `sclsearch.search.plan` returns it."""
MOST = 10
"""Configurations that the ranking shows at the end of a search; `show` shows more."""
MOST_IN_TURN = 3
"""The same for each of several methods, whose comparison follows."""
CLASSES_WIDTH = 71
"""Characters left beside the row names of 9 columns. Class names may be long."""
ROWS = ("training", "validation", "test", "stages without labels")


def print_plan(plan: Plan, *, as_json: bool) -> None:
    """Print a plan: every hyperparameter with its source, and the number of seed runs."""
    if as_json:
        print_json(plan)
        return
    console = Terminal()
    _show_setup(console, _setup(plan) | {"study": plan["study"]}, plan["notes"])
    rows = [(name, searched_values(spec), "searched") for name, spec in plan["searched"].items()]
    rows += [(name, shown(one.value), one.source) for name, one in plan["fields"].items()]
    console.print()
    console.print(grid(("field", "value", "from"), rows))
    _show_work(console, plan)


def _setup(plan: Plan) -> dict[str, str]:
    rows = " / ".join(str(count) for count in plan["rows"])
    kinds = " / ".join(ROWS[: len(plan["rows"])])
    return {
        "space": plan["space"],
        "task": f"{plan['task'][0]} from {plan['task'][1]}",
        **({"classes": _classes(plan["classes"])} if plan["classes"] else {}),
        "model": f"{plan['model'][0]} from {plan['model'][1]}",
        "device": ", ".join(plan["numerics"].split("-")),
        "protocol": f"{plan['protocol']}, rule {plan['rule']}, metric {plan['metric']}",
        "rows": f"{rows} ({kinds})",
        "storage": plan["storage"],
        "mlflow": plan["tracking"] or "none",
    }


def _show_setup(console: Console, setup: Mapping[str, str], notes: Sequence[str]) -> None:
    for what, text in setup.items():
        console.print(f"[bold]{what:<9}[/]{escape(text)}", soft_wrap=True)
    for note in notes:
        console.print(f"{'':<9}{escape(note)}", soft_wrap=True)


def _show_work(console: Console, plan: Plan) -> None:
    console.print(f"\n{_total(plan)}; stored: {plan['stored']}")
    if plan["race"] is not None:
        console.print(f"race: {race_sentence(plan['stages'], plan['race'])}", soft_wrap=True)
        console.print(f"to train: about {counted(plan['missing'], 'seed run')}")
    if plan["repeated"]:
        why = "its weights" if plan["test_scores"] == "all" else "test scores and weights"
        seed_runs = counted(plan["repeated"], "seed run")
        console.print(f"then to train again: {seed_runs} of the winner, for {why}")
    if plan["missing"]:
        console.print(f"time: {expected_time([plan['seconds']], plan['at_once'])}")


def _total(plan: Plan) -> str:
    first = min(len(plan["published"]), plan["configurations"])
    beginning = f"; {first} ({plan['start']}) first" if first else ""
    seeds = counted(plan["seeds"], "seed")
    configurations = counted(plan["configurations"], "configuration")
    return f"{configurations} x {seeds} = {counted(plan['seed_runs'], 'seed run')}{beginning}"


def print_plans(
    given: Mapping[str, Mapping[str, Any]], spec: StudySpec, options: RunOptions, *, as_json: bool
) -> None:
    """Print what each of several studies searches, its seed runs and time, and their sums."""
    studies = prepare_several(given, spec, options, dry=True)
    plans = [plan_prepared(one) for one in studies.values()]
    warning, console = unequal_rates(studies), Terminal()
    if as_json:
        print_json({"plans": plans, "warning": warning})
        return
    if warning:
        console.print(f"{warning}\n", markup=False)
    notes = [note for note in plans[0]["notes"] if all(note in one["notes"] for one in plans)]
    setups = [_setup(one) for one in plans]
    shared = {n: v for n, v in setups[0].items() if all(one.get(n) == v for one in setups)}
    _show_setup(console, shared, notes)
    console.print()
    for name, one, setup in zip(studies, plans, setups, strict=True):
        console.print(f"[bold]{escape(name)}[/]  {escape(one['study'])}", soft_wrap=True)
        for what in (name for name in setup if name not in shared):
            console.print(f"  {what}: {setup[what]}", markup=False, soft_wrap=True)
        for field, values in one["searched"].items():
            console.print(f"  {field}: {searched_values(values)}", markup=False, soft_wrap=True)
        for note in (note for note in one["notes"] if note not in notes):
            console.print(f"  {note}", markup=False, soft_wrap=True)
    console.print()
    console.print(_totals(dict(zip(studies, plans, strict=True))))


def _totals(plans: Mapping[str, Plan]) -> Table:
    """Return the seed runs and the time of each of several studies, and their sums."""
    counts = [[one[name] for name in ("seed_runs", "stored", "missing")] for one in plans.values()]
    seconds = [one["seconds"] for one in plans.values()]
    rows = [
        (name, f"{one['configurations']} x {one['seeds']}", *map(str, count), duration(time))
        for (name, one), count, time in zip(plans.items(), counts, seconds, strict=True)
    ]
    total = [str(sum(column)) for column in zip(*counts, strict=True)]
    rows.append(("together", "", *total, duration(None if None in seconds else sum(seconds))))
    headings = ("", "configurations\nx seeds", "seed runs", "stored", "missing", "time")
    return grid(headings, rows, optional=("time",) * (not any(seconds)))


def _classes(rows: Mapping[str, int]) -> str:
    classes = ", ".join(f"{name} ({count})" for name, count in rows.items())
    return shorten(classes, CLASSES_WIDTH, placeholder=f" … ({len(rows)} in all)")


def run_search(spec: StudySpec, options: RunOptions, *, as_json: bool) -> None:
    """Run one study, print its report, and exit."""
    progress = Terminal(stderr=True)
    done = run(spec, options, progress)
    found = done.report()
    if as_json:
        print_json(found.as_dict())
    else:
        console = Terminal()
        _show(console, found, done, MOST)
        summary = summary_of(found)
        _show_commands(console, _winner_commands(found, summary))
        show_summary(console, summary)
    _show_ending(progress, done)
    sys.exit(_exit_code(done))


def run_in_turn(
    given: Mapping[str, Mapping[str, Any]], spec: StudySpec, options: RunOptions, *, as_json: bool
) -> None:
    """Search several studies in turn, print their reports and their comparison, and exit."""
    progress, console = Terminal(stderr=True), Terminal(quiet=as_json)
    studies = prepare_several(given, spec, options)
    reports: list[Report] = []
    errors: dict[str, str] = {}
    codes = {0}
    try:
        for name, done in run_several(studies, progress):
            if isinstance(done, SclsearchError):
                errors[name] = str(done)
                progress.print(f"{name}: {done}", style="red", markup=False, soft_wrap=True)
                continue
            reports.append(done.report())
            _show(console, reports[-1], done, MOST_IN_TURN)
            console.print()
            _show_ending(progress, done)
            codes.add(_exit_code(done))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        codes.add(INTERRUPTED)
    stopped = INTERRUPTED in codes
    comparison = None if stopped else _compared(reports, len(studies), progress)
    if as_json:
        compared = comparison.as_dict() if comparison else {}
        documents = [one.as_dict() for one in reports]
        print_json({**compared, "reports": documents, "errors": errors})
    elif comparison:
        _show_comparison(console, comparison)
    else:
        for summary in map(summary_of, reports):
            # After a stop the same command resumes all studies.
            shown = replace(summary, next_step="", command="") if stopped else summary
            show_summary(console, shown)
    sys.exit(2 if errors and not stopped else max(codes))


def run_confirmations(
    studies: Sequence[str], seeds: int, options: RunOptions, *, as_json: bool
) -> None:
    """Train winners on new seeds, print their scores and their comparison, and exit."""
    progress, console = Terminal(stderr=True), Terminal(quiet=as_json)
    pairs = []
    for study in studies:
        pairs.append(confirm(study, seeds, options, progress))
        show_confirmation(console, *pairs[-1])
    repeated = [fresh for _, fresh in pairs]
    comparison = _compared(repeated, len(studies), progress) if len(studies) > 1 else None
    if as_json:
        documents = [{"chosen": one.as_dict(), "new": new.as_dict()} for one, new in pairs]
        compared = comparison.as_dict() if comparison else {}
        print_json({**compared, "confirmations": documents})
    elif comparison:
        show_comparison(console, comparison)
        show_summary(console, summarize_comparison(comparison))
    failed = any(one.winner is None or one.winner.failed for one in repeated)
    sys.exit(INCOMPLETE if failed else 0)


def _show(console: Console, found: Report, done: Scheduler, most: int) -> None:
    show(console, found, most=most)
    show_savings(console, found, skipped=done.skipped, reused=done.reused)


def _compared(reports: Sequence[Report], studies: int, progress: Console) -> StudyComparison | None:
    some = sum(any(line.seeds for line in one.configurations) for one in reports)
    if some < 2:
        progress.print(f"No comparison: {some} of {studies} studies have results.")
        return None
    try:
        return compare_studies(reports)
    except SclsearchError as error:
        progress.print(f"No comparison: {error}", markup=False, soft_wrap=True)
        return None


def _show_comparison(console: Console, found: StudyComparison) -> None:
    show_comparison(console, found)
    best = found.ranked[0].report
    export = (export_command(best), f"save {best.method} as a model")
    report = study_command("report", *found.reports, then=" --output report")
    commands = [*([] if best.verdict else [export]), (report, "write figures and tables")]
    _show_commands(console, commands)
    show_summary(console, summarize_comparison(found))


def _winner_commands(found: Report, summary: Summary) -> list[tuple[str, str]]:
    if found.winner is None:
        return [(study_command("show", found), "show the ranking so far")]
    export = export_command(found)
    report = study_command("report", found, then=" --output report")
    commands = [(report, "write figures and tables")]
    if export != summary.command and found.verdict is None and found.finished:
        commands.append((export, "save the winner as a model"))
    return commands


def _show_commands(console: Console, commands: Sequence[tuple[str, str]]) -> None:
    """Print commands with their effects as lines that a shell accepts."""
    lines = [(command, f"# {effect}") for command, effect in commands]
    if which("sclsearch") is None:
        activate = f"source {Path(sys.prefix) / 'bin' / 'activate'}"
        lines.insert(0, (activate, "# make the command available"))
    console.print()
    for command, effect in lines:
        console.print(Text(f"  {effect}\n  {command}"), style="dim", soft_wrap=True)


def _exit_code(done: Scheduler) -> int:
    """Return 0 if every seed run that was asked for has succeeded and has its test score."""
    if done.ending == "interrupted":
        return INTERRUPTED
    return INCOMPLETE if done.failed or done.to_test or done.ending != "complete" else 0


def _show_ending(progress: Console, done: Scheduler) -> None:
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
