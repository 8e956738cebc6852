"""Commands for a study's winner as a folder: `export`, `predict` and `verify`."""

import csv
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sclsearch.canonical import counted
from sclsearch.cli import options as o
from sclsearch.errors import INCOMPLETE, SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

if TYPE_CHECKING:
    from sclsearch.reports.export_record import ExportRecord
    from sclsearch.reports.predictor import Prediction, Predictor
    from sclsearch.reports.verification import Verification
    from sclsearch.tasks.streams import StreamFormat
    from sclsearch.tasks.tables import Row

    Results = Iterator[tuple[Row, Prediction | None]]

HUB, REFIT = "Hugging Face hub", "Training on more rows"
STDIN = Path("-")
SHOWN_PLACES = 10
"""Most rows with an empty text that a message names."""
Folder = Annotated[Path, typer.Argument(help="Folder written by `sclsearch export`.")]


def export(
    study: o.StudyName,
    folder: Annotated[Path, typer.Argument(help="Output folder, empty or missing.")],
    rule: o.StudyRule = None,
    ensemble: Annotated[
        bool,
        typer.Option(
            "--ensemble",
            help="Export every reported seed, as one model that averages their probabilities. "
            "Default: the seed with the best validation score.",
        ),
    ] = False,
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline",
            help="Export the baseline logistic regression on the frozen encoder (ridge regression "
            "for scores) instead of the winner.",
        ),
    ] = False,
    refit: Annotated[
        Literal["validation", "all"] | None,
        typer.Option(
            "--refit",
            metavar="[all]",
            help="Train the winner once more and export that model: on all training and validation "
            "rows, or with `--refit all` also on the test rows. Its score is then the estimate of "
            "the search. Default: a model of the search.",
            rich_help_panel=REFIT,
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of models that --refit trains. Several are exported as one that averages "
            "their probabilities.",
            rich_help_panel=REFIT,
        ),
    ] = 1,
    data_dir: o.DataDir = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:CLASS",
            help="Custom method of the study, if it is in a file. --refit and --baseline need it.",
            rich_help_panel=REFIT,
        ),
    ] = None,
    storage: o.Storage = DEFAULT_STORAGE,
    push: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="Upload the folder to this repository. HF_TOKEN and HF_ENDPOINT apply. Default: "
            "no upload. Example: me/my-classifier.",
            rich_help_panel=HUB,
        ),
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="Create a public repository, or upload to an existing public one. Default: "
            "private.",
            rich_help_panel=HUB,
        ),
    ] = False,
) -> None:
    """Export the winner of a study as a folder with weights, tokenizer and model card.

    The last three lines of the output are Python that loads it and classifies a text.
    """
    from sclsearch.api import export as write

    if refit and not baseline:
        sys.stderr.write("Training the winner again …\n")
    record = write(
        study,
        folder,
        rule=rule,
        storage=storage,
        ensemble=ensemble,
        refit=refit,
        baseline=baseline,
        seeds=seeds,
        data_dir=data_dir,
        method=method,
        push=push,
        public=public,
    )
    sys.stdout.write(f"{folder}: {_exported(record)}\n{_scores(record, study, rule, storage)}\n")
    if push is not None:
        # A public upload may go to a repository that is private and stays so.
        sys.stdout.write(f"Uploaded to {push}{'' if public else ', private'}\n")
    sys.stdout.write(_usage(record, folder))


def _exported(record: "ExportRecord") -> str:
    what = f"{record.base} fine-tuned on {record.task} by {record.method}"
    if record.baseline:
        what = f"{record.method} on the frozen {record.base} for {record.task}"
    if record.refit:
        models = f"{len(record.members)} models, each " if record.members else ""
        return f"{what}: {models}trained after the search on {record.refit}"
    scores = f"{record.metric} {record.validation:.4f}, test {record.test:.4f}"
    if record.members:
        seeds = f"{len(record.members)} seeds"
        return f"{what}: an ensemble of {seeds}, whose own scores average {scores}"
    return f"{what}: seed {record.replicate}, the best of {record.seeds} by validation, {scores}"


def _scores(record: "ExportRecord", study: str, rule: str | None, storage: str) -> str:
    from sclsearch.api import select
    from sclsearch.reports.confirmed import confirmed_score

    shown = f"Over all seeds, none picked, test {record.metric} is {record.mean_test:.4f}"
    if record.refit:
        shown += ", the estimate of the search; the exported model itself was not tested"
    if record.baseline:
        return f"{shown}. Quote that."
    found = select(study, rule=rule, storage=storage)
    if fresh := confirmed_score(found):
        return f"{shown}. Quote the score on fresh seeds, {fresh.mean:.4f}."
    if found.repeats:
        return f"{shown}. Quote that: the seeds did not choose the winner."
    return f"{shown}. Quote that, or better the score on fresh seeds of `sclsearch confirm`."


def _usage(record: "ExportRecord", folder: Path) -> str:
    from sclsearch.reports.loading_examples import main_example, method_option

    name, own = shlex.quote(str(folder)), method_option(record)
    lines = [f"On the command line: sclsearch predict {name} FILE{own}"]
    if record.members and not record.refit:
        lines.append(f"`sclsearch verify {name}{own}` prints the ensemble's own test score.")
    return "\n".join([*lines, "In Python:", main_example(str(folder), record)]) + "\n"


def predict(
    folder: Folder,
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, TSV, JSON Lines or Parquet file with texts, or - for standard input."
        ),
    ],
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
    format_: Annotated[
        Literal["csv", "jsonl"],
        typer.Option("--format", help="Format of the output, and of standard input."),
    ] = "csv",
    proba: Annotated[
        bool,
        typer.Option("--proba", help="Print the probability of each class. Default: its score."),
    ] = False,
    batch_size: Annotated[
        int, typer.Option(help="Most texts to predict at a time. Example: 1 to answer each line.")
    ] = 64,
    device: Annotated[
        str | None,
        typer.Option(help="Device of torch. Default: the GPU if there is one. Example: cpu."),
    ] = None,
    method: o.OwnMethod = None,
) -> None:
    """Predict labels for texts with an exported winner, batch by batch.

    The class with the highest score is the label. Scores are logits; those of lacon and
    lacon-fusion are cosines, those of an ensemble probabilities. A row with an empty text is
    printed without a prediction, and counted in a message.
    """
    from sclsearch.api import load
    from sclsearch.reports.export_record import read_record

    record = read_record(folder)
    columns = _text_columns(record, text, file)
    every = (*columns, *(keep or ()))
    header = _header(record, every, format_, proba=proba)
    source, unit, rows = _rows(file, format_, every, len(columns))
    predictor = load(folder, method=method, device=device, batch_size=batch_size)
    empty: list[int] = []
    results = _predictions(predictor, rows, len(columns), empty)
    write = _write_csv if format_ == "csv" else _write_json_lines
    try:
        write(header, results, proba=proba)
    finally:
        if empty:
            _warn_of_empty_texts(source, unit, empty)


def _warn_of_empty_texts(source: str, unit: str, places: Sequence[int]) -> None:
    shown = ", ".join(map(str, places[:SHOWN_PLACES]))
    more = ", …" if len(places) > SHOWN_PLACES else ""
    rows = counted(len(places), "row")
    sys.stderr.write(
        f"{source}: {rows} with an empty text: no prediction. {unit.capitalize()}s: {shown}{more}\n"
    )


def _text_columns(
    record: "ExportRecord", text: Sequence[str] | None, file: Path
) -> tuple[str, ...]:
    columns = tuple(text or record.columns)
    if len(columns) != 1 + record.pair:
        raise SclsearchError(
            f"--text: must name {'two columns' if record.pair else 'one column'} of {file}, as "
            f"{record.task} has, got {len(columns)}. Pass --text COLUMN"
            f"{' twice' if record.pair else ''}."
        )
    return columns


def _header(
    record: "ExportRecord", every: Sequence[str], form: "StreamFormat", *, proba: bool
) -> list[str]:
    """Return the names of the printed columns, or of the keys of each JSON object."""
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
            f"--text, --keep: {', '.join(twice)} would be printed twice. Rename the column in the "
            "file, or leave it out."
        )
    return header


def _rows(
    file: Path, form: "StreamFormat", every: tuple[str, ...], texts: int
) -> "tuple[str, str, Iterator[Row]]":
    """Return the name of a source, the unit of its positions, and its rows.

    A file is checked as a whole first; rows of standard input come as they arrive.
    """
    from sclsearch.tasks.custom import load_own_table
    from sclsearch.tasks.streams import NAME, stream_rows
    from sclsearch.tasks.tables import check_faults, check_rows, text_faults

    if file == STDIN:
        return NAME, "line", stream_rows(sys.stdin.buffer, form, every, texts)
    table = load_own_table(file, every)
    check_rows(table, table.rows)
    cells = ((row.place, row.cells[:texts]) for row in table.rows)
    check_faults(table, text_faults(cells, blank_texts=True))
    return str(file), table.unit, iter(table.rows)


def _predictions(
    predictor: "Predictor", rows: "Iterator[Row]", texts: int, empty: list[int]
) -> "Results":
    """Yield each row and its prediction: None, with its position in `empty`, if a text is empty."""
    kept, read = tee(rows)
    found = predictor.predict_stream(row.cells[:texts] for row in read if _has_texts(row, texts))
    for row in kept:
        if _has_texts(row, texts):
            yield row, next(found)
        else:
            empty.append(row.place)
            yield row, None


def _has_texts(row: "Row", texts: int) -> bool:
    return all(text.strip() for text in row.cells[:texts])


class _StandardOutput:
    """Standard output, flushed row by row, so that predictions stream."""

    def write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
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


def _write_csv(header: Sequence[str], results: "Results", *, proba: bool) -> None:
    table = csv.writer(_StandardOutput(), lineterminator="\n")
    table.writerow(header)
    for row, one in results:
        if one is None:
            table.writerow([*row.cells, *[""] * (len(header) - len(row.cells))])
        else:
            values = one.probabilities if proba else one.scores
            numbers = (f"{value:.6g}" for value in values.values())
            label = one.label if isinstance(one.label, str) else f"{one.label:.6g}"
            table.writerow([*row.cells, label, *numbers])


def _write_json_lines(header: Sequence[str], results: "Results", *, proba: bool) -> None:
    output = _StandardOutput()
    for row, one in results:
        line: dict[str, Any] = dict.fromkeys(header)  # null without a prediction
        line.update(zip(header[: len(row.cells)], row.values or row.cells, strict=True))
        if one is not None:
            line["predicted"] = one.label
            if one.scores:
                line[header[-1]] = one.probabilities if proba else one.scores
        output.write(json.dumps(line, ensure_ascii=False) + "\n")


def verify(
    folder: Folder,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the task's files. Default: the current folder for your own files; for "
            "others SCLSEARCH_DATA, then the Hugging Face hub."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            min=0,
            help="Accepted difference of the score, for another device than in training. Example: "
            "0.005.",
        ),
    ] = 0.0,
    method: o.OwnMethod = None,
    json_: o.Json = False,
) -> None:
    """Evaluate an export again on the test rows of its study; compare with the recorded score.

    Exit code 3 if a file changed, a score differs, or transformers alone predicts otherwise.
    """
    from sclsearch.api import verify as check
    from sclsearch.cli.output import print_json

    found = check(folder, data_dir=data_dir, method=method, tolerance=tolerance)
    if json_:
        print_json({**asdict(found), "verified": found.verified})
    else:
        _show_verification(folder, found)
    sys.exit(0 if found.verified else INCOMPLETE)


def _show_verification(folder: Path, found: "Verification") -> None:
    from sclsearch.reports.export_record import DIGESTS

    if not (found.members or found.changed):
        sys.stdout.write("no score is recorded: the model was trained after the search\n")
    for one in found.members:
        sys.stdout.write(
            f"seed {one.replicate}: test {found.metric} {one.found:.4f} on {one.rows} rows, "
            f"recorded {one.recorded:.4f}\n"
        )
        if one.agreeing is not None:
            sys.stdout.write(
                f"  transformers alone predicts the same for {one.agreeing} of {one.rows} rows\n"
            )
    if found.ensemble is not None:
        sys.stdout.write(
            f"ensemble of {len(found.members)} seeds: test {found.metric} {found.ensemble:.4f}\n"
        )
    if found.changed is None:
        sys.stdout.write(f"{DIGESTS} is missing, so the files were not compared with it\n")
    for name in found.changed or ():
        sys.stdout.write(f"{name}: missing, or not as `sclsearch export` wrote it\n")
    verdict = "verified"
    if not found.verified:
        verdict = "NOT verified: a file, a score or a prediction differs"
    sys.stdout.write(f"{folder}: {verdict}\n")
