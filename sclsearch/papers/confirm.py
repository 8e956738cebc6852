"""Evaluation of a study's winner on new replicates, and its terminal output."""

from dataclasses import replace

from rich.console import Console

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import share_rows
from sclsearch.reports.report import ConfigurationLine, Report, finished_winner, report, undamaged
from sclsearch.reports.summary import summary_of
from sclsearch.reports.terminal import show, show_notes, show_summary
from sclsearch.reports.words import test_result, with_spread
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run_prepared
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.rules import parse_rule
from sclsearch.store.studies import existing_study
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import check_unchanged, restore_data_dir, restore_study_spec
from sclsearch.study.spec import RunOptions


def confirm(study: str, count: int, options: RunOptions, console: Console) -> tuple[Report, Report]:
    """Train a study's winner on `count` replicates beyond the protocol's and the study's.

    Returns:
        The report of the study, and the report of its winner on the new replicates.
    """
    chosen, prepared = prepare_confirmation(study, count, options)
    done = run_prepared(prepared, console)
    if done.ending != "complete":
        raise KeyboardInterrupt
    return chosen, done.report()


def prepare_confirmation(
    study: str, count: int, options: RunOptions, *, dry: bool = False
) -> tuple[Report, Scheduler]:
    """Return the report of a study, and the repetition of its winner, ready to run."""
    chosen = report(
        options.storage, study, None if options.rule is None else parse_rule(options.rule)
    )
    winner = finished_winner(undamaged(chosen))
    store, record = existing_study(options.storage, study)
    if record.repeats:
        raise SclsearchError(
            f"{study}: repeats the winner of another study. Give the name of that study."
        )
    replicates = store.replicates()
    spec = restore_study_spec(
        record,
        winner.fields,
        options.custom_method,
        fresh=count,
        first_fresh=len(replicates),
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
        before = resolve(replace(spec, fresh=None, first_fresh=None), options)
        check_unchanged(study, "the study", replicates[0].rows, before.splits(0).digests)
    prepared = replace(prepare_study(spec, options, dry=dry), weights=False)
    inputs = {name: value for name, value in record.training.items() if name not in may_differ}
    check_unchanged(study, "the study", inputs, prepared.record.training)
    return chosen, prepared


def _device_kind(options: RunOptions) -> str:
    from sclsearch.training.device import backend_here

    if options.gpus_per_trial is None:
        return backend_here().device.type
    return "cuda" if options.gpus_per_trial else "cpu"


def show_confirmation(console: Console, chosen: Report, fresh: Report) -> None:
    """Print a winner's score as chosen, over all its seeds, and on new seeds."""
    winner, repeated = finished_winner(chosen), fresh.winner
    if repeated is None or not fresh.has_test:  # every new seed failed, or has no test score
        show(console, fresh)
        return
    plain = with_spread(*winner.plain) if winner.plain else "none"
    console.print(
        f"[bold]Winner #{winner.number}[/] of {chosen.study}, {chosen.tested_on} {chosen.metric}",
        soft_wrap=True,
    )
    console.print(f"  as chosen      {test_result(winner)}, rule {chosen.rule}")
    console.print(f"  all its seeds  {plain}, {_seeds(chosen, winner)}")
    console.print(f"  new seeds      {test_result(repeated)}, {_seeds(fresh, repeated)}")
    if repeated.test_mean is not None and winner.test_mean is not None:
        console.print(f"  new - chosen   {repeated.test_mean - winner.test_mean:+.4f}")
    if share_rows(chosen, fresh):
        console.print("  the new seeds share the search's rows; weights and orders are new")
    show_notes(console, fresh)
    console.print(f"  stored as the study {fresh.study}", soft_wrap=True)
    show_summary(console, summary_of(chosen))


def _seeds(found: Report, line: ConfigurationLine) -> str:
    finished = f"{found.seeds - line.failed} of " if line.failed else ""
    return f"mean of {finished}{counted(found.seeds, 'seed')}"
