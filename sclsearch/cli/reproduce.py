"""Commands about papers: `reproduce` repeats a table, `augment` writes paraphrases."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from sclsearch.arguments import fields_of
from sclsearch.cli import options as o
from sclsearch.cli.options import repeat_options
from sclsearch.cli.output import print_json, write
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError, lookup
from sclsearch.papers.augmentation import BACKENDS, Options
from sclsearch.papers.augmentation.write import Written, header, select_texts
from sclsearch.papers.augmentation.write import write as write_paraphrases
from sclsearch.papers.tables import Table, published_tables, select_cells
from sclsearch.reports.terminal import Terminal
from sclsearch.study.spec import MOST_SEEDS, RunOptions, StudySpec
from sclsearch.tasks import as_task, check_data_dir, load_task
from sclsearch.tasks.custom import CustomTask

if TYPE_CHECKING:
    from sclsearch.papers.reproduce import PlannedCell


def reproduce(
    context: typer.Context,
    resources: o.ResourceOptions,
    table: str,
    cells: list[str] | None = None,
    scale: o.Scale = None,
    model: str | None = None,
    paraphrases: o.Paraphrases = None,
    time_budget: o.TimeBudget = None,
) -> None:
    """Repeat the experiments of a published table or figure and show our scores beside it.

    Options:
        table: Published table or figure, or `ls` to list all. Example: gunel/table-4.
        --cells: Cells by row, column and condition; repeatable. Default: all cells; those of a
            figure that suit --scale. Example: CE+SCL,20,SST-2.
        --model: Encoder: an alias, a folder or a hub name. Default: the encoder of the table or of
            --scale.
    """
    tables = published_tables()
    if table == "ls":
        _check_alone(context)
        write("".join(f"{name}\t{found.title}\n" for name, found in tables.items()))
        return
    found = lookup(tables, table, "table")
    from sclsearch.papers.reproduce import plan_cells

    options = repeat_options(resources, time_budget=time_budget)
    selected = select_cells(found, cells or (found.laptop if scale else ()))
    planned = plan_cells(
        found, selected, options, scale=scale, model=model, paraphrases=paraphrases
    )
    if planned and not any(one.spec for one in planned):
        reasons = {one.reason: f"{one.cell.name}: {one.reason}" for one in reversed(planned)}
        raise SclsearchError(
            "\n".join([f"{table}: no selected cell can be trained.", *reasons.values()])
        )
    if resources["dry_run"]:
        _show_costs(planned, as_json=resources["json_"])
    else:
        _train_and_show(found, planned, options, as_json=resources["json_"])


def _check_alone(context: typer.Context) -> None:
    for name in context.params:
        if name != "table" and o.given(context, name):
            raise SclsearchError(
                f"--{name.rstrip('_').replace('_', '-')}: has no effect on `ls`, which lists all "
                "tables. Leave it out."
            )


def _show_costs(planned: "Sequence[PlannedCell]", *, as_json: bool) -> None:
    from sclsearch.papers.reproduce import cost_of, distinct_studies
    from sclsearch.papers.terminal import show_costs

    costs = [(one, cost_of(one)) for one in distinct_studies(planned)]
    if as_json:
        without = [{"cell": one.cell, "reason": one.reason} for one in planned if one.reason]
        costs_with_tasks = [
            {
                **{"cell": one.cell, "task": one.spec and one.spec.task, "note": one.note},
                **asdict(cost),
            }
            for one, cost in costs
        ]
        print_json({"studies": costs_with_tasks, "not_reproduced": without})
    else:
        show_costs(Terminal(), costs, planned)
    if all(cost.reason for _, cost in costs):
        sys.exit(INCOMPLETE)


def _train_and_show(
    table: "Table", planned: "Sequence[PlannedCell]", options: RunOptions, *, as_json: bool
) -> None:
    from sclsearch.papers.reproduce import CellScore, compare_rows, reproduce_cell
    from sclsearch.papers.terminal import drawing_commands, show_scores

    progress = Terminal(stderr=True)
    seconds = float("inf") if options.time_budget is None else options.time_budget
    deadline = time.monotonic() + seconds
    scores: list[CellScore] = []
    stopped = False
    try:
        for one in planned:
            if one.spec is not None:
                progress.print(one.cell.name, style="dim", markup=False, soft_wrap=True)
            scores.append(reproduce_cell(one, progress, deadline))
    except KeyboardInterrupt:
        progress.print(STOPPED)
        stopped = True
    if as_json:
        # Convert the published value to our unit: a table may use percent.
        rows = [{**asdict(one), "published": table.as_metric(one.cell)} for one in scores]
        print_json({"table": table.name, "scores": rows, "pairs": compare_rows(scores)})
    else:
        show_scores(Terminal(), table, scores)
        write("".join(f"{one}\n" for one in drawing_commands(table, scores, options.storage)))
    if stopped:
        sys.exit(INTERRUPTED)
    wanted = [score for score, one in zip(scores, planned, strict=True) if one.spec is not None]
    incomplete = not wanted or any(None in (score.mean, *score.tests) for score in wanted)
    sys.exit(INCOMPLETE if incomplete else 0)


PLAIN_SECONDS = 30.0
MOST_VIEWS = 100
BackendName = Literal["marian", "eda"]


def augment(
    texts: o.TextOptions,
    backend: BackendName,
    protocol: str | None = None,
    replicates: Annotated[int | None, typer.Option(min=1, max=MOST_SEEDS)] = None,
    pivot: str | None = None,
    second_pivot: str | None = None,
    temperature: float | None = None,
    views: Annotated[int | None, typer.Option(min=2, max=MOST_VIEWS)] = None,
    seed: int | None = None,
    models: Path | None = None,
    out: Path | None = None,
) -> None:
    """Write paraphrases of training texts to a file for the option --paraphrases.

    Run the same command again to resume.

    Options:
        --backend: Paraphrasing back-end: marian (translation) or eda.
        --protocol: Protocol that draws the training texts. Default: CSSL's few-shot protocol with a
            training size, plain for your own file, else all training texts.
        --replicates: Number of replicates that draw texts. Default: the protocol's number.
        --pivot: Pivot language of the translation. Default: de.
        --second-pivot: Pivot language of every second paraphrase. Default: zh with 2 views.
        --temperature: Sampling temperature; higher values are noisier. Default: 0.7.
        --views: Paraphrases per text. Default: 2, or the number that the protocol adds to each
            training row if it is higher.
        --seed: Seed of the sampling. Default: 0.
        --models: Folder with the translation models (opus-mt-en-de/, …). Default: the Hugging Face
            hub.
        --out: Output file. Default: a file in the current folder, named after the texts and the
            back-end.
    """
    columns = fields_of(CustomTask, o.changed_options(texts))
    named, data_dir = as_task(texts["task"], **columns), texts["data_dir"]
    unlabeled = StudySpec(task=named, unlabeled=texts["unlabeled"]).unlabeled
    selection = select_texts(
        named, protocol, texts["train_size"], texts["shots"], replicates, unlabeled
    )
    check_data_dir(named, data_dir)
    options = Options(
        views=selection.views(views),
        pivot=pivot,
        second_pivot=second_pivot,
        temperature=temperature,
        seed=seed,
        models=models,
    )
    path = out or Path(f"paraphrases-{selection.file_name}-{backend}.jsonl")
    made = BACKENDS[backend](options)
    if made.english:
        selection.check_english(backend)
    on_folds = selection.protocol is None or selection.protocol.name == "plain"
    data = load_task(selection.task, data_dir, on_folds=on_folds)
    rows = selection.texts(data)
    first = header(backend, options.views, made, selection, data, rows)
    console = Terminal(stderr=True)
    console.print(
        f"{len(rows)} texts of {selection.name} ({data.source}): {first['source']}", soft_wrap=True
    )
    with _progress(console, len(rows)) as show_progress:
        written = write_paraphrases(path, first, rows, made, show_progress)
    given = [*selection.options, "--paraphrases", str(path)]
    given += ["--data-dir", str(data_dir)] if data_dir else []
    _print_summary(written, path, first, shlex.join(["sclsearch", "tune", *given]))


def _print_summary(written: "Written", path: Path, first: Mapping[str, Any], command: str) -> None:
    earlier = f", {written.earlier} of them from before" if written.earlier else ""
    lines = [f"{path}: {written.texts} texts with {first['views']} paraphrases each{earlier}."]
    if written.paraphrases:
        nothing = f", {written.empty} of them because the back-end found nothing"
        equal = f"; of {written.equal} texts the first two are the same"
        lines.append(
            f"Of the {written.paraphrases} made now {written.same} are the text itself"
            f"{nothing if written.empty else ''}{equal if written.equal else ''}."
        )
    if first.get("note"):
        lines.append(f"Reports will say: {first['note']}")
    write("".join(f"{line}\n" for line in (*lines, f"Use it: {command}")))


@contextmanager
def _progress(console: Terminal, wanted: int) -> "Iterator[Callable[[int], None]]":
    """Yield a progress function that takes the number of finished texts.

    On a terminal it updates a live bar, elsewhere it prints a line every `PLAIN_SECONDS`.
    """
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    task = bar.add_task("texts", total=wanted)
    shown = time.monotonic()

    def show_progress(done: int) -> None:
        nonlocal shown
        bar.update(task, completed=done)
        now = time.monotonic()
        if not console.is_terminal and now - shown > PLAIN_SECONDS:
            shown = now
            console.print(f"{done}/{wanted} texts")

    with bar:
        yield show_progress
