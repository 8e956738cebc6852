"""Commands that take a winner out of its study, and use it."""

import csv
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError
from sclsearch.store.places import DEFAULT_STORAGE


def export(
    study: Annotated[str, typer.Argument(help="A study: `sclsearch ls studies`.")],
    folder: Annotated[Path, typer.Argument(help="Where to: a folder that is not there yet.")],
    rule: o.StudyRule = None,
    storage: o.Storage = DEFAULT_STORAGE,
) -> None:
    """Writes the winner's encoder as a Hugging Face folder, of its best seed by validation."""
    from sclsearch.api import export as write

    card = write(study, folder, rule=rule, storage=storage)
    name = shlex.quote(str(folder))
    sys.stdout.write(
        f"{folder}: {card.base} fine-tuned on {card.task} by {card.method}: seed "
        f"{card.replicate}, the best of {card.seeds} by validation, {card.metric} "
        f"{card.validation:.4f}, test {card.test:.4f}\n"
        f"Use it: sclsearch predict {name} FILE, or --model {name}\n"
    )


def predict(
    folder: Annotated[Path, typer.Argument(help="What `sclsearch export` wrote.")],
    file: Annotated[Path, typer.Argument(help="Texts: a CSV, TSV, JSON Lines or Parquet file.")],
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of the texts; twice for pairs. Default: as in a file that was trained on."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Another column that is printed, as an id; repeatable."),
    ] = None,
) -> None:
    """Labels the texts of a file by an exported winner; prints CSV.

    Each class has a score, as the method gives it: the highest is the label. Their softmax is a
    probability, but for lacon and lacon-fusion, whose scores are cosines.
    """
    from sclsearch.reports.prediction import predict as predict_by
    from sclsearch.reports.prediction import read_card
    from sclsearch.tasks.formats import load_table
    from sclsearch.tasks.tables import check_faults, check_rows, text_faults

    card = read_card(folder)
    columns = tuple(text or card.columns)
    if len(columns) != 1 + card.pair:
        raise SclsearchError(
            f"--text: it must name {'two columns' if card.pair else 'one column'} of {file}, as "
            f"{card.task} has, but there are {len(columns)}. Pass --text COLUMN"
            f"{' twice' if card.pair else ''}."
        )
    every = (*columns, *(keep or ()))
    header = [*every, "label", *(f"score {name}" for name in card.labels)]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise SclsearchError(
            f"--text, --keep: the columns that are printed must differ, but {', '.join(twice)} "
            "would be there twice. Rename it in the file, or leave it out."
        )
    table = load_table(file, every)
    check_rows(table, table.rows)
    texts = [row.cells[: len(columns)] for row in table.rows]
    check_faults(table, text_faults((row.place, row.cells[: len(columns)]) for row in table.rows))
    found = predict_by(folder, texts)
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(header)
    for row, one in zip(table.rows, found, strict=True):
        figures = (f"{score:.6g}" for score in one.scores.values())
        written.writerow([*row.cells, one.label, *figures])
