"""Commands that train: tune, train and rerun."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.errors import SclsearchError

if TYPE_CHECKING:
    from sclsearch.search.options import How, What
    from sclsearch.tasks.own import OwnFiles

INTERRUPTED = 130


def tune(
    method: o.Method,
    task: o.TaskName,
    model: o.Model = None,
    protocol: o.ProtocolName = None,
    train_size: o.TrainSize = None,
    shots: o.Shots = None,
    rule: o.RuleName = None,
    space: Annotated[
        Path | None, typer.Option(help="A space file. Default: the shipped one.")
    ] = None,
    configs: Annotated[
        int | None, typer.Option(help="Configurations in total. Default: 20, or all there are.")
    ] = None,
    seeds: o.Seeds = None,
    study: o.Study = None,
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    sampler: Annotated[
        o.SamplerName, typer.Option(help="Who proposes after the published ones.")
    ] = "tpe",
    time_budget: o.TimeBudget = None,
    trial_timeout: o.TrialTimeout = None,
    set_: o.Settings = None,
    search_seed: Annotated[int, typer.Option(help="Seed of the sampler and of nothing else.")] = 0,
    retry_failed: o.RetryFailed = False,
    dry_run: o.DryRun = False,
    json_: o.Json = False,
    text: o.Text = None,
    label: o.Label = None,
    validation: o.Validation = None,
    test: o.Test = None,
    split_column: o.SplitColumn = None,
    fractions: o.Fractions = None,
    metric: o.Metric = None,
    regression: o.Regression = False,
) -> None:
    """Searches the best configuration; the same command again goes on, or reads the store."""
    from sclsearch.search.options import How, What

    own = _own(
        task, text, label, validation, test, split_column, fractions, metric, regression=regression
    )
    what = What(
        method=method,
        task=own or task,
        model=model,
        protocol=protocol,
        train_size=train_size,
        shots=shots,
        space=space,
        settings=o.settings(set_),
        sampler=sampler,
        search_seed=search_seed,
    )
    how = How(
        study=study,
        storage=storage,
        data_dir=data_dir,
        tracking=tracking,
        configs=configs,
        seeds=seeds,
        rule=rule,
        address=address,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        concurrency=concurrency,
        time_budget=o.seconds(time_budget, "--time-budget"),
        trial_timeout=o.seconds(trial_timeout, "--trial-timeout"),
        retry_failed=retry_failed,
    )
    _go(what, how, dry_run=dry_run, as_json=json_)


def train(
    method: o.Method,
    task: o.TaskName,
    model: o.Model = None,
    protocol: o.ProtocolName = None,
    train_size: o.TrainSize = None,
    shots: o.Shots = None,
    rule: o.RuleName = None,
    seeds: o.Seeds = None,
    study: o.Study = None,
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    tracking: o.Tracking = None,
    address: o.Address = None,
    cpus_per_trial: o.Cpus = 1,
    gpus_per_trial: o.Gpus = None,
    concurrency: o.Concurrency = None,
    trial_timeout: o.TrialTimeout = None,
    set_: o.Settings = None,
    retry_failed: o.RetryFailed = False,
    dry_run: o.DryRun = False,
    json_: o.Json = False,
    text: o.Text = None,
    label: o.Label = None,
    validation: o.Validation = None,
    test: o.Test = None,
    split_column: o.SplitColumn = None,
    fractions: o.Fractions = None,
    metric: o.Metric = None,
    regression: o.Regression = False,
) -> None:
    """Trains one configuration over the seeds: the space's starting point and what --set sets."""
    from sclsearch.search.options import How, What

    own = _own(
        task, text, label, validation, test, split_column, fractions, metric, regression=regression
    )
    what = What(
        method=method,
        task=own or task,
        model=model,
        protocol=protocol,
        train_size=train_size,
        shots=shots,
        settings=o.settings(set_),
        searched=False,
    )
    how = How(
        study=study,
        storage=storage,
        data_dir=data_dir,
        tracking=tracking,
        seeds=seeds,
        rule=rule,
        address=address,
        cpus_per_trial=cpus_per_trial,
        gpus_per_trial=gpus_per_trial,
        concurrency=concurrency,
        trial_timeout=o.seconds(trial_timeout, "--trial-timeout"),
        retry_failed=retry_failed,
    )
    _go(what, how, dry_run=dry_run, as_json=json_)


def rerun(
    key: Annotated[str, typer.Argument(help="A seed run's key, or its beginning.")],
    storage: o.Storage = o.STORAGE,
    data_dir: o.DataDir = None,
    weights: Annotated[
        Path | None, typer.Option(help="Write the weights to this .safetensors file.")
    ] = None,
) -> None:
    """Trains one seed run again and compares it bit for bit; exit code 1 if it differs."""
    from rich.console import Console

    from sclsearch.search.rerun import rerun as again
    from sclsearch.search.resolve import storage_folder

    found = again(storage_folder(storage), key, data_dir, weights)
    console = Console()
    if found.failure:
        console.print(f"{found.key[:12]} had failed ({found.failure}); this time it finished.")
    elif found.differing:
        console.print(f"{found.key[:12]} differs in {', '.join(found.differing)}.")
    else:
        console.print(f"{found.key[:12]} is identical, every figure of it; {found.seconds:.1f} s.")
    if weights is not None:
        console.print(f"weights {weights}", soft_wrap=True)
    if found.differing:
        sys.exit(1)


def _own(
    task: str,
    text: Sequence[str] | None,
    label: str | None,
    validation: Path | None,
    test: Path | None,
    split_column: str | None,
    fractions: str | None,
    metric: str | None,
    *,
    regression: bool,
) -> "OwnFiles | None":
    given = {
        "--text": text,
        "--label": label,
        "--validation": validation,
        "--test": test,
        "--split-column": split_column,
        "--fractions": fractions,
        "--metric": metric,
        "--regression": regression or None,
    }
    named = [option for option, value in given.items() if value is not None]
    if not named:
        return None
    if not text or label is None:
        raise SclsearchError(
            f"{', '.join(named)}: a file of your own must come with --text and --label. Pass both, "
            "or neither with a named task."
        )
    from sclsearch.tasks.own import OwnFiles

    return OwnFiles(
        path=Path(task),
        text=tuple(text),
        label=label,
        validation=validation,
        test=test,
        split_column=split_column,
        fractions=o.fractions(fractions),
        metric=metric,
        regression=regression,
    )


def _go(what: "What", how: "How", *, dry_run: bool, as_json: bool) -> None:
    from rich.console import Console

    from sclsearch.cli.output import print_json, show_plan
    from sclsearch.reports.terminal import show

    if dry_run:
        from sclsearch.search.plan import plan

        planned = plan(what, how)
        if as_json:
            print_json(planned)
        else:
            show_plan(Console(), planned)
        return
    from sclsearch.api import report_of
    from sclsearch.search.run import run

    progress = Console(stderr=True)
    done = run(what, how, progress)
    found = report_of(done, how)
    if as_json:
        print_json(found)
    else:
        show(Console(), found)
        Console().print(f"\nsclsearch select {done.name}\nsclsearch ui", style="dim")
    if done.tracking:
        progress.print(
            f"MLflow: {done.tracking}. `sclsearch track {done.name}` completes it.", soft_wrap=True
        )
    if done.ending != "complete":
        reason = "Stopped" if done.ending == "interrupted" else "The time budget is used"
        progress.print(
            f"{reason}: {done.done} of {done.wanted} seed runs. The same command goes on."
        )
    sys.exit(INTERRUPTED if done.ending == "interrupted" else int(done.failed > 0))
