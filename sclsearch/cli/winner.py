"""Commands that use a study's winner: `export`, `predict`, `confirm` and `variance`."""

import csv
import math
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.spec import repeat_options
from sclsearch.errors import INCOMPLETE, SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

MOST_RUNS = 1000

StudyName = Annotated[str, typer.Argument(help="Name of a study, see `sclsearch ls studies`.")]


def export(
    study: StudyName,
    folder: Annotated[Path, typer.Argument(help="Output folder, empty or missing.")],
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Export the winner of a study as a Hugging Face folder.

    The export has the weights of the seed with the best validation score.
    """
    from sclsearch.api import export as write

    card = write(study, folder, rule=rule, storage=storage)
    name = shlex.quote(str(folder))
    sys.stdout.write(
        f"{folder}: {card.base} fine-tuned on {card.task} by {card.method}: seed "
        f"{card.replicate}, the best of {card.seeds} by validation, {card.metric} "
        f"{card.validation:.4f}, test {card.test:.4f}\n"
        f"Over all seeds, none picked, test {card.metric} is {card.mean_test:.4f}: quote that.\n"
        f"Use it: sclsearch predict {name} FILE, or --model {name}\n"
    )


def predict(
    folder: Annotated[Path, typer.Argument(help="Folder written by `sclsearch export`.")],
    file: Annotated[Path, typer.Argument(help="CSV, TSV, JSON Lines or Parquet file with texts.")],
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the text; pass it twice for text pairs. Default: the text columns of "
            "the training file."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Further column to print; repeatable. Example: id."),
    ] = None,
    method: o.OwnMethod = None,
) -> None:
    """Predict labels for the texts of a file with an exported winner; print CSV.

    The output has one score per class; the class with the highest score is the label. The softmax
    of the scores gives probabilities, except for lacon and lacon-fusion: their scores are cosines.
    """
    from sclsearch.reports.prediction import predict as predict_by
    from sclsearch.reports.prediction import read_card
    from sclsearch.tasks.tables import check_faults, check_rows, load_table, text_faults

    card = read_card(folder)
    columns = tuple(text or card.columns)
    if len(columns) != 1 + card.pair:
        raise SclsearchError(
            f"--text: must name {'two columns' if card.pair else 'one column'} of {file}, as "
            f"{card.task} has, got {len(columns)}. Pass --text COLUMN"
            f"{' twice' if card.pair else ''}."
        )
    every = (*columns, *(keep or ()))
    header = [*every, "predicted", *(f"score {name}" for name in card.labels)]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise SclsearchError(
            f"--text, --keep: {', '.join(twice)} would be printed twice. Rename the column in the "
            "file, or leave it out."
        )
    table = load_table(file, every)
    check_rows(table, table.rows)
    texts = [row.cells[: len(columns)] for row in table.rows]
    check_faults(table, text_faults((row.place, row.cells[: len(columns)]) for row in table.rows))
    found = predict_by(folder, texts, method)
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(header)
    for row, one in zip(table.rows, found, strict=True):
        figures = (f"{score:.6g}" for score in one.scores.values())
        written.writerow([*row.cells, one.label, *figures])


def confirm(
    study: StudyName,
    resources: o.ResourceOptions,
    seeds: Annotated[int, typer.Option(min=1, help="Number of new seeds.")] = 10,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
) -> None:
    """Re-evaluate the winner on new seeds, without selection bias."""
    from rich.console import Console

    from sclsearch.cli.output import print_json, print_plan
    from sclsearch.papers.confirm import confirm as again
    from sclsearch.papers.confirm import plan_repetition
    from sclsearch.papers.terminal import show_confirmation
    from sclsearch.search.estimate import finished

    options = repeat_options(resources, rule=rule, custom_method=method)
    if resources.dry_run:
        planned = plan_repetition(study, options, partial(finished, options.storage), fresh=seeds)
        print_plan(planned, as_json=resources.json_)
        return
    progress = Console(stderr=True)
    found = again(study, seeds, options, progress)
    if resources.json_:
        print_json(asdict(found))
    else:
        show_confirmation(Console(), found)
    winner = found.fresh.winner
    sys.exit(INCOMPLETE if winner is None or winner.failed else 0)


def variance(
    study: StudyName,
    resources: o.ResourceOptions,
    subsets: Annotated[
        int,
        typer.Option(
            min=1, help="Number of training subsets, for protocols that draw subsets. Example: 3."
        ),
    ] = 1,
    initializations: Annotated[
        int,
        typer.Option(
            "--initializations",
            min=1,
            help="Number of initializations of the new layers.",
        ),
    ] = 3,
    orders: Annotated[
        int, typer.Option(min=1, help="Number of data orders, each with different random noise.")
    ] = 3,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
) -> None:
    """Measure how much subset, initialization and data order each add to the winner's variance."""
    from rich.console import Console

    from sclsearch.cli.output import print_json, print_plan
    from sclsearch.papers.confirm import plan_repetition
    from sclsearch.papers.confirm import variance as again
    from sclsearch.papers.terminal import show_spread
    from sclsearch.search.estimate import finished

    levels = {"subset": subsets, "initialization": initializations, "order": orders}
    _check_levels(levels)
    options = repeat_options(resources, rule=rule, custom_method=method)
    if resources.dry_run:
        planned = plan_repetition(
            study, options, partial(finished, options.storage), crossed=levels
        )
        print_plan(planned, as_json=resources.json_)
        return
    progress = Console(stderr=True)
    found = again(study, levels, options, progress)
    if resources.json_:
        print_json(asdict(found))
    else:
        show_spread(Console(), study, found)


def _check_levels(levels: Mapping[str, int]) -> None:
    where = ", ".join(f"--{source}s" for source in levels)
    runs = math.prod(levels.values())
    if runs > MOST_RUNS:
        raise SclsearchError(
            f"{where}: must have at most {MOST_RUNS} combinations, got {runs}. Choose fewer seeds."
        )
    if sum(count > 1 for count in levels.values()) < 2:
        raise SclsearchError(
            f"{where}: at least two must be 2 or more, got "
            f"{', '.join(map(str, levels.values()))}. One source alone has no baseline."
        )
