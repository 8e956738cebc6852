"""Commands for a study's winner as a folder: `export` and `predict`."""

import csv
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sclsearch.api import export as export_winner
from sclsearch.api import load, select
from sclsearch.canonical import counted, printable, safe_cell
from sclsearch.cli import options as o
from sclsearch.cli.output import write
from sclsearch.errors import SclsearchError
from sclsearch.exports.calibration import calibration_lines
from sclsearch.exports.loading import main_example, own_method_option
from sclsearch.exports.predictor import ExportRecord, Prediction, read_record
from sclsearch.protocols.base import NO_TEST_ROWS
from sclsearch.reports.comparison import confirmed_score
from sclsearch.reports.report import finished_winner
from sclsearch.reports.words import left_out
from sclsearch.store.storage import DEFAULT_STORAGE
from sclsearch.study.spec import MOST_SEEDS
from sclsearch.tasks.custom import column_names, known_delimiter, obvious_columns
from sclsearch.tasks.tables import has_blank, parse, read_table, text_columns

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.reports.report import Report

    Results = Iterator[tuple[Mapping[str, Any], Prediction]]

Format = Literal["csv", "jsonl"]
REFIT = "Training on more rows"
STDIN = Path("-")
ROW = "row"
"""Name of the column with the number of a row, from 1."""
SHOWN_ROWS = 10
"""Most rows with an empty text that a message names."""


def export(
    study: o.StudyName,
    folder: Path,
    rule: o.StudyRule = None,
    ensemble: bool = False,
    baseline: bool = False,
    refit: Annotated[
        Literal["validation", "all"] | None,
        typer.Option("--refit", metavar="validation|all", rich_help_panel=REFIT),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=MOST_SEEDS, rich_help_panel=REFIT)] = 1,
    calibrate: bool = False,
    threshold: Annotated[Literal["tune"] | None, typer.Option(metavar="tune")] = None,
    data_dir: o.DataDir = None,
    method: Annotated[str | None, typer.Option(metavar="FILE.py:CLASS")] = None,
    force: bool = False,
    onnx: bool = False,
    storage: o.Storage = DEFAULT_STORAGE,
    push: Annotated[str | None, typer.Option(metavar="OWNER/NAME")] = None,
) -> None:
    """Export the winner of a study as a folder with weights, tokenizer and model card.

    A model of the search is read again, and its predictions are compared with the stored ones.

    The last three lines of the output are Python that loads it and classifies a text.

    Options:
        folder: Output folder, empty or missing.
        --ensemble: Export every reported seed, as one model that averages their probabilities.
            Default: the seed with the best validation score.
        --baseline: Export the baseline logistic regression on the frozen encoder (ridge regression
            for scores) instead of the winner.
        --refit: Train the winner once more and export that model: with `validation` on all training
            and validation rows, with `all` also on the test rows. Its score is then the estimate of
            the search. Default: a model of the search.
        --seeds: Number of models that --refit trains. Several are exported as one that averages
            their probabilities.
        --calibrate: Divide the logits by a temperature fitted on the validation rows, for
            probabilities that are neither too sure nor too unsure.
        --threshold: With `tune`, predict the second of two classes from the probability that has
            the best metric on the validation rows. Default: the likelier class.
        --method: Custom method of the study, if it is in a file. --refit, --baseline and the
            comparison with the stored predictions need it.
        --force: Export a useless winner, too: one that predicts one class, is not above the
            majority class, or is below the linear model. Default: refuse it.
        --onnx: Also write `onnx/model.onnx`, for programs without torch, and compare it with torch
            on validation rows. Needs pip install 'sclsearch[onnx]'.
        --push: Upload the folder to this repository of the Hugging Face hub with HF_TOKEN. A
            missing one becomes private; other files of an existing one are deleted. Default: no
            upload. Example: me/my-classifier.
    """
    if refit and not (baseline or calibrate or threshold):
        write("Training the winner again …\n", error=True)
    record = export_winner(
        study,
        folder,
        rule=rule,
        storage=storage,
        ensemble=ensemble,
        refit=refit,
        baseline=baseline,
        seeds=seeds,
        calibrate=calibrate,
        threshold=threshold,
        data_dir=data_dir,
        method=method,
        force=force,
        onnx=onnx,
        push=push,
    )
    found = select(study, rule=rule, storage=storage)
    verdict = [] if found.verdict is None or record.baseline else found.verdict.lines
    lines = [*verdict, f"{folder}: {_exported(record, found)}", _scores(record, found)]
    lines += [*calibration_lines(record), *record.onnx_lines]
    write("".join(f"{line}\n" for line in lines))
    if push is not None:
        write(f"Uploaded to {push}\n")
    write(_usage(record, folder))


def _exported(record: "ExportRecord", found: "Report") -> str:
    what = f"{record.base} fine-tuned on {record.task} by {record.method}"
    if record.baseline:
        what = f"{record.method} on the frozen {record.base} for {record.task}"
    if record.refit:
        models = f"{len(record.members)} models, each " if record.members else ""
        return f"{what}: {models}trained after the search on {record.refit}"
    scores = f"{record.metric} {record.validation:.4f}"
    if record.test is not None and found.tests_apart:
        scores += f", test {record.test:.4f}"
    if record.members:
        seeds = f"{len(record.members)} seeds"
        return f"{what}: an ensemble of {seeds}, whose own scores average {scores}"
    return f"{what}: seed {record.replicate}, the best of {record.seeds} by validation, {scores}"


def _scores(record: "ExportRecord", found: "Report") -> str:
    """Return the score to expect of the exported model, and the one to quote."""
    if record.mean_test is None:
        return f"There are {NO_TEST_ROWS}. Validation scores of a winner are optimistic."
    if found.estimate is not None and not record.baseline:
        return f"Expected {record.metric} on new texts: {found.estimate}. {found.choice}"
    seeds = left_out(finished_winner(found).failed)
    shown = f"Over all seeds, {seeds}, {found.tested_on} {record.metric} is {record.mean_test:.4f}"
    if record.refit:
        shown += ", the estimate of the search; the exported model itself was not tested"
    if record.baseline:
        return f"{shown}. Report that."
    if fresh := confirmed_score(found):
        return f"{shown}. Report the score on new seeds, {fresh.mean:.4f}."
    if found.repeats:
        return f"{shown}. Report that: the seeds did not choose the winner."
    return f"{shown}. Report that, or better the score on new seeds of `sclsearch confirm`."


def _usage(record: "ExportRecord", folder: Path) -> str:
    name, own = shlex.quote(str(folder)), own_method_option(record)
    lines = [f"On the command line: sclsearch predict {name} FILE{own}"]
    return "\n".join([*lines, "In Python:", main_example(str(folder), record)]) + "\n"


def predict(
    folder: Path,
    file: Path,
    text: list[str] | None = None,
    keep: list[str] | None = None,
    id_: str | None = None,
    no_text: bool = False,
    delimiter: str | None = None,
    format_: Format = "csv",
    safe_cells: bool = False,
    proba: bool = False,
    batch_size: Annotated[int, typer.Option(min=1)] = 64,
    device: str | None = None,
    method: o.OwnMethod = None,
) -> None:
    """Predict labels for texts with an exported winner, batch by batch.

    The class with the highest score is the label, unless the export has a threshold. Scores
    are logits, of lacon cosines, of an ensemble probabilities. Rows with an empty text are left
    out and counted.

    Options:
        folder: Folder written by `sclsearch export`.
        file: CSV, TSV, JSON, JSON Lines or Parquet file with texts, also as .gz, or - for standard
            input.
        --text: Column of the text; pass it twice for text pairs. Default: the text columns of the
            training file; without one, `text` or `sentence`, or the only column beside the label.
        --keep: Further column to print; repeatable. Example: author.
        --id: Column to print first, instead of the number of the row. Example: id.
        --no-text: Leave out the texts.
        --delimiter: Delimiter of a CSV file: a character or tab. Default: detected.
        --format: Format of the output, and of standard input.
        --safe-cells: Print an apostrophe before cells that a spreadsheet would compute: those that
            begin with =, +, - or @.
        --proba: Print the probability of each class. Default: its score.
        --batch-size: Most texts to predict at a time. Example: 256.
        --device: Device of torch. Default: the GPU if there is one. Example: cpu.
    """
    record = read_record(folder)
    where = "standard input" if file == STDIN else str(file)
    raw = _rows(file, where, format_, delimiter)
    kept, named = [*(keep or ())], [] if id_ is None else [id_]
    first = [*named, ROW][0]
    columns = _text_columns(record, raw, where, text, [*kept, id_])
    printed = [first, *(() if no_text else columns), *kept]
    header = _header(record, [first, *columns, *kept], format_, proba=proba)
    header = [name for name in header if name in printed or name not in columns]
    own = dict.fromkeys([*columns, *kept, *named])
    cells = text_columns(raw, list(own), where)
    if cells.empty:
        raise SclsearchError(f"{where}: there are no rows. Add some.")
    if not named:
        raw, cells = (one.assign(**{ROW: range(1, len(raw) + 1)}) for one in (raw, cells))
    texts = list(zip(*(cells[name] for name in columns), strict=True))
    rows = [row for row, own in enumerate(texts) if not has_blank(own)]
    if empty := sorted({*range(len(texts))} - {*rows}):
        _warn_of_empty_texts(where, first, [cells[first][row] for row in empty])
    shown = cells[printed]
    if format_ == "jsonl":  # numbers stay numbers, and missing values are null
        shown = raw[printed].astype(object).where(raw[printed].notna(), None)
    records: list[dict[Any, Any]] = shown.iloc[rows].to_dict("records")
    predictor = load(folder, method=method, device=device, batch_size=batch_size)
    results = zip(records, predictor.predict_stream(texts[row] for row in rows), strict=True)
    if format_ == "csv":
        _write_csv(header, results, proba=proba, safe=safe_cells)
    else:
        _write_json_lines(header, results, proba=proba)


def _text_columns(
    record: "ExportRecord",
    raw: "pd.DataFrame",
    where: str,
    text: Sequence[str] | None,
    others: Sequence[str | None],
) -> tuple[str, ...]:
    """Return the given columns of text, or those of the training file, or the obvious ones."""
    trained = record.columns if {*record.columns} <= {*map(str, raw.columns)} else ()
    columns = tuple(text or trained or obvious_columns(raw, where, others=others)[0] or ())
    if len(columns) != 1 + record.pair:
        count, twice = ("two columns", " twice") if record.pair else ("one column", "")
        raise SclsearchError(
            f"{where}: must have {count} of text, as {record.task}, got "
            f"{', '.join(columns) or 'none that is clear'}. Pass --text COLUMN{twice}; the columns "
            f"are {column_names(raw)}."
        )
    return columns


def _warn_of_empty_texts(source: str, column: str, names: Sequence[object]) -> None:
    shown = ", ".join(map(str, names[:SHOWN_ROWS]))
    more = ", …" if len(names) > SHOWN_ROWS else ""
    rows = counted(len(names), "row")
    write(f"{source}: {rows} with an empty text left out: {column} {shown}{more}\n", error=True)


def _header(
    record: "ExportRecord", every: Sequence[str], form: Format, *, proba: bool
) -> list[str]:
    if proba and not record.labels:
        raise SclsearchError(
            f"--proba: {record.task} must have classes, got a regression. Leave it out."
        )
    if form == "csv":
        value = "probability" if proba else "score"
        scores = [f"{value} {name}" for name in record.labels]
    else:
        scores = ["probabilities" if proba else "scores"] if record.labels else []
    header = [*every, "predicted", *scores]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise SclsearchError(
            f"--text, --keep, --id: {', '.join(twice)} would be printed twice. Rename the column "
            "in the file, or leave it out."
        )
    return header


def _rows(file: Path, where: str, form: Format, delimiter: str | None) -> "pd.DataFrame":
    delimiter = None if delimiter is None else known_delimiter(delimiter)
    if file == STDIN:
        return parse(sys.stdin.buffer.read(), where, f".{form}", delimiter)
    return read_table(file, delimiter)


class _StandardOutput:
    """Standard output, flushed row by row, so that predictions stream."""

    def write(self, text: str) -> None:
        try:
            write(text)
            sys.stdout.flush()
        except OSError as error:
            # Python must not flush again at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has enough
                sys.exit(0)
            raise SclsearchError(
                f"standard output: cannot be written: {error.strerror}. Write the predictions "
                "elsewhere."
            ) from error


def _write_csv(header: Sequence[str], results: "Results", *, proba: bool, safe: bool) -> None:
    def cell(value: object) -> str:
        text = printable(str(value))
        return str(safe_cell(text)) if safe else text

    table = csv.writer(_StandardOutput(), lineterminator="\n")
    table.writerow([cell(name) for name in header])
    for row, one in results:
        values = one.probabilities if proba else one.scores
        numbers = (f"{value:.6g}" for value in values.values())
        label = one.label if isinstance(one.label, str) else f"{one.label:.6g}"
        table.writerow([*map(cell, (*row.values(), label)), *numbers])


def _write_json_lines(header: Sequence[str], results: "Results", *, proba: bool) -> None:
    output = _StandardOutput()
    for row, one in results:
        line = {**row, "predicted": one.label}
        if one.scores:
            line[header[-1]] = one.probabilities if proba else one.scores
        output.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
