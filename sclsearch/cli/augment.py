"""The `augment` command, which writes a file of paraphrases."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sclsearch.cli import options as o

if TYPE_CHECKING:
    from rich.console import Console

    from sclsearch.papers.augmentation.write import Written

PLAIN_SECONDS = 30.0
BackendName = Literal["marian", "eda"]


def augment(
    texts: o.TextOptions,
    backend: BackendName,
    protocol: str | None = None,
    replicates: Annotated[int | None, typer.Option(min=1)] = None,
    pivot: str | None = None,
    second_pivot: str | None = None,
    temperature: float | None = None,
    views: Annotated[int | None, typer.Option(min=2)] = None,
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
    from rich.console import Console

    from sclsearch.cli.options import task_of
    from sclsearch.papers.augmentation import BACKENDS, Options
    from sclsearch.papers.augmentation.write import header, select_texts, write
    from sclsearch.study.spec import StudySpec
    from sclsearch.tasks import check_data_dir, load_task

    named, data_dir = task_of(texts["task"], texts), texts["data_dir"]
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
    data = load_task(selection.task, data_dir)
    rows = selection.texts(data)
    first = header(backend, options.views, made, selection, data, rows)
    console = Console(stderr=True)
    console.print(
        f"{len(rows)} texts of {selection.name} ({data.source}): {first['source']}", soft_wrap=True
    )
    with _progress(console, len(rows)) as show_progress:
        written = write(path, first, rows, made, show_progress)
    given = [*selection.options, "--paraphrases", str(path)]
    given += ["--data-dir", str(data_dir)] if data_dir else []
    _say(written, path, first, shlex.join(["sclsearch", "tune", *given]))


def _say(written: "Written", path: Path, first: Mapping[str, Any], command: str) -> None:
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
    sys.stdout.writelines(f"{line}\n" for line in (*lines, f"Use it: {command}"))


@contextmanager
def _progress(console: "Console", wanted: int) -> "Iterator[Callable[[int], None]]":
    """Yield a progress function that takes the number of finished texts.

    On a terminal it updates a live bar, elsewhere it prints a line every `PLAIN_SECONDS`.
    """
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

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
