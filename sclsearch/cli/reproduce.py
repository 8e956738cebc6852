"""Commands about papers: `reproduce` repeats a table, `augment` writes paraphrases."""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

from sclsearch.arguments import fields_of, option_words
from sclsearch.cli import options as o
from sclsearch.cli.options import repeat_options
from sclsearch.cli.output import print_json, write
from sclsearch.errors import INCOMPLETE, INTERRUPTED, STOPPED, SclsearchError, lookup
from sclsearch.papers.augmentation import EDA, Marian, drawn_texts
from sclsearch.papers.augmentation import write as write_paraphrases
from sclsearch.papers.tables import Table, published_tables, select_cells
from sclsearch.protocols.base import Size
from sclsearch.reports.terminal import Terminal
from sclsearch.study.spec import MOST_SEEDS, RunOptions, StudySpec
from sclsearch.tasks import CORPORA, as_task, check_data_dir, load_task
from sclsearch.tasks.base import Texts
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.paraphrases import READ, paraphrase_source

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
        studies = [
            {"cell": one.cell, "task": one.spec and one.spec.task, "note": one.note, **cost}
            for one, cost in costs
        ]
        print_json({"studies": studies, "not_reproduced": without})
    else:
        show_costs(Terminal(), costs, planned)
    if all("reason" in cost for _, cost in costs):
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
        pairs = compare_rows(scores)
        print_json({"table": table.name, "scores": scores, "pairs": pairs})
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


def augment(
    texts: o.TextOptions,
    translation: o.TranslationOptions,
    backend: Literal["marian", "eda"],
    protocol: str | None = None,
    replicates: Annotated[int | None, typer.Option(min=1, max=MOST_SEEDS)] = None,
    views: Annotated[int | None, typer.Option(min=2, max=MOST_VIEWS)] = None,
    out: Path | None = None,
) -> None:
    """Write paraphrases of training texts to a file for the option --paraphrases.

    Run the same command again to resume.

    Options:
        --backend: Paraphrasing back-end: marian (translation) or eda.
        --protocol: Protocol that draws the training texts. Default: CSSL's few-shot protocol with a
            training size, plain for your own file, else all training texts.
        --replicates: Number of replicates that draw texts. Default: the protocol's number.
        --views: Paraphrases per text. Default: 2, or the number that the protocol adds to each
            training row if it is higher.
        --out: Output file. Default: a file in the current folder, named after the texts and the
            back-end.
    """
    from sclsearch.methods.cmlm import CSSL
    from sclsearch.study.resolve import find_study_protocol

    task = as_task(texts["task"], **fields_of(CustomTask, o.changed_options(texts)))
    spec = StudySpec(task=task, protocol=protocol, unlabeled=texts["unlabeled"])
    size = Size.of(texts["train_size"], texts["shots"])
    rules = None
    if protocol or size or not isinstance(task, str):
        rules = find_study_protocol(spec, CSSL, size)
    elif replicates is not None:
        raise SclsearchError(
            "--replicates: does not apply to all training texts. Leave it out, or give a training "
            "size or a protocol."
        )
    joined, count = (rules.joined, replicates or rules.replicates) if rules else (0, 0)
    if views is not None and views < joined:
        raise SclsearchError(
            f"--views: must be at least {joined}, the number that {protocol} adds to each training "
            f"row, got {views}. Leave it out."
        )
    check_data_dir(task, texts["data_dir"])
    made = _backend(backend, views or max(READ, joined), o.changed_options(translation), task)
    source = made.header()
    on_folds = rules is None or rules.name == "plain"
    data = load_task(task, texts["data_dir"], on_folds=on_folds)
    rows = drawn_texts(data, rules, size, count, spec.unlabeled)
    about = {
        **source,
        "backend": backend,
        "views": made.views,
        "task": data.task.name,
        "size": str(size or "full"),
        "protocol": rules and rules.name,
        "replicates": count,
        **({"unlabeled": spec.unlabeled} if spec.unlabeled else {}),
        "data": data.digest,
    }
    pool = spec.unlabeled and f"unlabeled-{spec.unlabeled}"
    words = filter(None, (data.task.name, about["size"], protocol, pool, backend))
    path = out or Path(f"paraphrases-{'-'.join(words)}.jsonl")
    what = f"{len(rows)} texts of {data.task.name} ({data.source}): {source['source']}"
    Terminal(stderr=True).print(what, soft_wrap=True)
    _write(path, about, rows, made)
    options = {
        "--method": "cssl" if not joined else "ce" if data.task.regression else "scl",
        "--protocol": protocol,
        "--train-size": texts["train_size"],
        "--shots": texts["shots"],
        "--unlabeled": spec.unlabeled,
        "--seeds": count if rules and count < rules.replicates else None,
        "--rule": "mean" if rules and count < rules.rule.least else None,
        "--paraphrases": path,
        "--data-dir": texts["data_dir"],
    }
    command = ["sclsearch", "tune", *as_options(task), *option_words(options)]
    write(f"Use it: {shlex.join(command)}\n")


def _backend(
    name: str, views: int, options: Mapping[str, Any], task: str | CustomTask
) -> EDA | Marian:
    if name == "eda":
        if options:
            named = ", ".join(f"--{option.replace('_', '-')}" for option in options)
            raise SclsearchError(f"{named}: does not apply to --backend eda. Leave it out.")
        return EDA(views)
    if isinstance(task, str) and task in CORPORA and not CORPORA[task].english:
        raise SclsearchError(
            f"--backend marian: needs English texts, but those of {task} are Chinese. Take "
            "--backend eda."
        )
    return Marian(views=views, **options)


def _write(
    path: Path, about: Mapping[str, Any], rows: Sequence[Texts], backend: EDA | Marian
) -> None:
    """Write the paraphrases with a live bar or, without a terminal, a line now and then."""
    console, shown = Terminal(stderr=True), time.monotonic()
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    counts = write_paraphrases(path, about, rows, backend)
    earlier = next(counts)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        line = bar.add_task("texts", total=len(rows), completed=earlier)
        for done in counts:
            bar.update(line, completed=done)
            if not console.is_terminal and time.monotonic() - shown > PLAIN_SECONDS:
                shown = time.monotonic()
                console.print(f"{done}/{len(rows)} texts")
    found = paraphrase_source(path, about["views"]).rows
    pairs = [(row, view) for row, views in found.items() for view in views]
    parts = [part for row, view in pairs for part in zip(row, view, strict=True)]
    same = sum(text.split() == view.split() for text, view in parts)
    equal = sum(views[0] == views[1] for views in found.values())
    before = f", {earlier} of them from before" if earlier else ""
    write(
        f"{path}: {len(found)} texts with {about['views']} paraphrases each{before}.\n{same} of "
        f"{len(parts)} paraphrases are the text itself; of {equal} texts the first two are the "
        "same.\n"
    )
    if "note" in about:
        write(f"Reports will say: {about['note']}\n")
