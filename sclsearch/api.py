"""The Python interface: each function does what the command of its name does."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from sclsearch.reports.export import Card
from sclsearch.reports.export import export as export_winner
from sclsearch.reports.report import Report, report
from sclsearch.search.options import DEFAULT_STORAGE, How, What
from sclsearch.search.run import Finished, run
from sclsearch.selection.rules import parse_rule
from sclsearch.store.places import Storage, storage_folder


def tune(what: What, how: How | None = None, console: Console | None = None) -> Report:
    """Searches, or goes on with a search, and returns its report.

    Args:
        what: What is searched: `What(method="scl", task="cola", train_size=100)`.
        how: How it is run; figures do not depend on it.
        console: Where progress is shown; None shows none.

    Raises:
        SclsearchError: Something that the caller can mend.
    """
    how = how or How()
    done = run(what, how, console or Console(quiet=True))
    return report_of(done, how)


def train(what: What, how: How | None = None, console: Console | None = None) -> Report:
    """Trains one configuration, the space's starting point with the settings, over the seeds.

    Args:
        what: What is trained; its fields stand in `settings`.
        how: How it is run.
        console: Where progress is shown; None shows none.

    Raises:
        SclsearchError: Something that the caller can mend.
    """
    return tune(replace(what, searched=False), how, console)


def select(
    study: str,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> Report:
    """Returns a study's ranking under any rule; trains nothing.

    Args:
        study: The study's name.
        rule: `mean`, `best`, `top-3`, `mean/best`; None takes the study's.
        storage: Where it is stored.
        seeds: The first so many replicates; None takes all.

    Raises:
        SclsearchError: There is no such study or rule.
    """
    return report(storage_folder(storage), study, parse_rule(rule) if rule else None, seeds)


def export(study: str, folder: Path, storage: Storage = DEFAULT_STORAGE) -> Card:
    """Writes the encoder of a study's winner as a Hugging Face folder; returns what it is.

    Args:
        study: The study's name.
        folder: A folder that is empty or not there.
        storage: Where it is stored.

    Raises:
        SclsearchError: There is no such study or it has no winner, its weights are not kept, or
            the folder is not free.
    """
    found = select(study, storage=storage)
    return export_winner(found, storage_folder(storage), folder)


def report_of(done: Finished, how: How) -> Report:
    """Returns the report of a study that was run just now."""
    rule = parse_rule(how.rule) if how.rule else None
    return report(done.storage, done.name, rule, done.seeds, done.configs)
