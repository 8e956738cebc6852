"""Commands that train: `tune`, `train` and `rerun`."""

import os
import shlex
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.spec import spec_and_options
from sclsearch.errors import INCOMPLETE, INTERRUPTED, SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE, storage_option

if TYPE_CHECKING:
    from sclsearch.search.rerun import Comparison
    from sclsearch.search.run import SearchResult
    from sclsearch.study.spec import RunOptions, StudySpec


def tune(
    study: o.StudyOptions,
    search: o.SearchOptions,
    resources: o.ResourceOptions,
    own: o.OwnFileOptions,
) -> None:
    """Search for the best configuration. Run the same command again to resume.

    Example: sclsearch tune --method scl --task cola --train-size 100
    """
    _go(resources, *spec_and_options(study, own, search, resources))


def train(study: o.StudyOptions, resources: o.ResourceOptions, own: o.OwnFileOptions) -> None:
    """Train one configuration with every seed: the space's starting point, changed by --set.

    Example: sclsearch train --method scl --task cola --set tau=0.3
    """
    _go(resources, *spec_and_options(study, own, None, resources))


def rerun(
    key: Annotated[str, typer.Argument(help="Key of a seed run, or a prefix of it.")],
    storage: o.Storage = DEFAULT_STORAGE,
    data_dir: o.DataDir = None,
    weights: Annotated[
        Path | None, typer.Option(help="Write the weights to this .safetensors file.")
    ] = None,
    method: o.OwnMethod = None,
) -> None:
    """Train one seed run again and check that the result is identical, bit for bit.

    Exit code 1 if the result differs.
    """
    if weights is not None and weights.suffix != ".safetensors":
        raise SclsearchError(
            f"--weights {weights}: must end in .safetensors, the format of the file. Rename it."
        )
    from sclsearch.search.rerun import rerun as again
    from sclsearch.store.storage import storage_folder

    found = again(storage_folder(storage, make=False), key, data_dir, weights, method)
    sys.stdout.write(f"{found.key[:12]} {_ended(found)}\n")
    if weights is not None and found.now is None:
        sys.stdout.write(f"weights {weights}\n")
    if not found.same:
        sys.exit(1)


def _ended(found: "Comparison") -> str:
    before, now = (f and f"{f.cause}: {f.message}" for f in (found.before, found.now))
    if found.same:
        way = f"failed again in the same way ({now})" if now else "is identical in every number"
        return f"{way}; {found.seconds:.1f} s."
    if now:
        had = f"had failed otherwise ({before})" if before else "had finished"
        return f"{had}; this time it failed ({now})."
    if before:
        return f"had failed ({before}); this time it finished."
    return f"differs in {', '.join(found.differing)}."


def _go(resources: o.ResourceOptions, spec: "StudySpec", options: "RunOptions") -> None:
    from sclsearch.cli.output import print_plan

    if not resources.dry_run:
        _run(spec, options, as_json=resources.json_)
        return
    from sclsearch.search.estimate import finished
    from sclsearch.search.plan import plan

    planned = plan(spec, options, partial(finished, options.storage))
    print_plan(planned, as_json=resources.json_)


def _run(spec: "StudySpec", options: "RunOptions", *, as_json: bool) -> None:
    from rich.console import Console

    from sclsearch.api import report_of
    from sclsearch.cli.output import print_json
    from sclsearch.reports.terminal import show
    from sclsearch.search.run import run
    from sclsearch.tracking import find_tracking_uri

    progress = Console(stderr=True)
    done = run(spec, options, progress)
    found = report_of(done)
    if as_json:
        print_json({**asdict(found), "winner": found.winner and found.winner.number})
    else:
        show(Console(), found)
        rule = f" --rule {options.rule}" if options.rule else ""
        named = f"{rule}{storage_option(done.storage)}"
        usable = found.winner is not None and found.winner.reported
        able = ("export {} FOLDER", "confirm {}") if usable else ("select {}",)
        hint = "\nNext:"
        if which("sclsearch") is None:
            hint += f"\n  source {Path(sys.prefix) / 'bin' / 'activate'}"
        hint += "".join(f"\n  sclsearch {command.format(done.name)}{named}" for command in able)
        if options.tracking is None and str(find_tracking_uri(None, done.storage)).startswith(
            "sqlite"
        ):
            named = "" if os.environ.get("MLFLOW_TRACKING_URI") else storage_option(done.storage)
            hint += f"\n  sclsearch ui{named}"
        Console().print(hint, style="dim", markup=False, soft_wrap=True)
    if done.tracking:
        command = f"sclsearch track {done.name}{_stored(done, options)}"
        progress.print(f"MLflow: {done.tracking}. `{command}` completes it.", soft_wrap=True)
    if done.ending != "complete":
        why = "Stopped" if done.ending == "interrupted" else "The time budget is used"
        progress.print(
            f"{why}: {done.done} of {done.wanted} seed runs. Run the same command again to resume."
        )
    incomplete = done.failed > 0 or done.ending != "complete"
    sys.exit(INTERRUPTED if done.ending == "interrupted" else INCOMPLETE * incomplete)


def _stored(done: "SearchResult", options: "RunOptions") -> str:
    """Return the command line options for a study's storage and MLflow URI."""
    from sclsearch.tracking import NO_DATABASE
    from sclsearch.tracking.server import masked

    named = "URI" if done.tracking == NO_DATABASE else options.tracking
    uri = f" --tracking {shlex.quote(masked(named))}" if named else ""
    return f"{storage_option(done.storage)}{uri}"
