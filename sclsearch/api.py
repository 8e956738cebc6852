"""The Python interface: each function does what the command of its name does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sclsearch.arguments import expanded
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.export import Card
from sclsearch.reports.export import export as export_winner
from sclsearch.reports.prediction import Prediction
from sclsearch.reports.prediction import predict as predict_by
from sclsearch.reports.report import Report, report
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import DEFAULT_STORAGE, Storage, storage_folder
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import check_data_dir
from sclsearch.tasks.base import Texts

if TYPE_CHECKING:
    from sclsearch.methods.base import Method
    from sclsearch.search.run import SearchResult


def tune(
    spec: StudySpec, options: RunOptions | None = None, console: Console | None = None
) -> Report:
    """Searches, or goes on with a search, and returns its report.

    Where `How.time_budget` ended it, fewer configurations than were asked for have a score; the
    same call goes on.

    Args:
        spec: What is searched: `StudySpec(method="scl", task="cola", train_size=100)`.
        options: How it is run: no seed run's figures depend on it, but that a GPU is not a CPU.
        console: Where progress is shown; None shows none.

    Raises:
        SclsearchError: Something that the caller can mend.
        KeyboardInterrupt: It was stopped; the same call goes on.
    """
    options = options or RunOptions()
    check_data_dir(spec.task, options.data_dir)
    from sclsearch.search.run import run

    done = run(spec, options, console or Console(quiet=True))
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    return report_of(done)


def train(
    spec: StudySpec, options: RunOptions | None = None, console: Console | None = None
) -> Report:
    """Trains one configuration, the space's starting point with the settings, over the seeds.

    Ends early as `tune` does.

    Args:
        spec: What is trained; its fields stand in `settings`.
        options: How it is run.
        console: Where progress is shown; None shows none.

    Raises:
        SclsearchError: Something that the caller can mend.
        KeyboardInterrupt: It was stopped; the same call goes on.
    """
    return tune(replace(spec, searched=False), options, console)


def select(
    study: str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> Report:
    """Returns a study's ranking under any rule; trains nothing.

    Args:
        study: The study's name.
        rule: `mean`, `best`, `top-3`, `mean/best`; None takes that of the study's first start.
        storage: Where it is stored.
        seeds: The first so many replicates; None takes all.

    Raises:
        SclsearchError: There is no such study or rule.
    """
    place = storage_folder(storage, make=False)
    return report(place, study, None if rule is None else parse_rule(rule), seeds)


def compare(
    *studies: str,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> StudyComparison:
    """Returns what tells the winners of studies from that of the first; trains nothing.

    Test figures of all replicates, none picked, paired by replicate: of one protocol methods share
    its rows, their order and a head's first weights.

    Args:
        studies: Names of two or more studies of one task and protocol.
        rule: Who wins; None takes each study's own.
        storage: Where they are stored.
        seeds: The first so many replicates; None takes as many as all have.

    Raises:
        SclsearchError: There is no such study, one has no winner, or they cannot be compared.
    """
    return compare_studies(
        [select(study, rule=rule, storage=storage, seeds=seeds) for study in studies]
    )


def export(
    study: str,
    folder: Path | str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
) -> Card:
    """Writes the encoder of a study's winner as a Hugging Face folder; returns what it is.

    Args:
        study: The study's name.
        folder: A folder that is empty or not there.
        rule: Who wins; None takes that of the study's first start.
        storage: Where it is stored.

    Raises:
        SclsearchError: There is no such study or it has no winner, its weights are not kept, or
            the folder is not free.
    """
    found = select(study, rule=rule, storage=storage)
    return export_winner(found, storage_folder(storage, make=False), Path(folder))


def predict(
    folder: Path | str,
    texts: Sequence[str | Texts],
    *,
    method: "str | type[Method] | None" = None,
) -> list[Prediction]:
    """Returns what an exported winner says of new texts, in their order.

    Args:
        folder: What `export` wrote.
        texts: Texts, or pairs of them where the task has pairs.
        method: A method of your own, as `FILE.py:CLASS` or its class, if the export was trained
            with it: code that an export names runs only if you name it, too.

    Raises:
        SclsearchError: The folder is none, its method is not there, or a text is empty, a pair
            where the task has none, or none where it has pairs.
    """
    return predict_by(expanded(Path(folder)), texts, method)


def report_of(done: "SearchResult") -> Report:
    """Returns the report of a study that was run just now."""
    return report(done.storage, done.name, done.rule, done.seeds, done.configs)
