"""Commands that train: `tune`, `train`, `confirm` and `rerun`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sclsearch.cli import options as o
from sclsearch.cli.options import repeat_options, spec_and_options
from sclsearch.cli.output import write
from sclsearch.encoders.models import several_models
from sclsearch.methods import check_method_name
from sclsearch.store.storage import DEFAULT_STORAGE, storage_folder
from sclsearch.study.spec import MOST_SEEDS, SEARCH, RunOptions, StudySpec

if TYPE_CHECKING:
    from sclsearch.search.run import Comparison


def tune(options: o.TuneOptions) -> None:
    """Search for the best configuration. Run the same command again to resume.

    Several methods or several models, as in --method ce,scl, run in turn with equal
    numbers of configurations and seeds. The winners are then compared.

    Example: sclsearch tune --method scl --task cola --train-size 100
    """
    methods = [name.strip() for name in options["method"].split(",")]
    for method in methods:
        check_method_name(method)
    models = several_models(options["model"])
    chosen = spec_and_options({**options, "method": methods[0], "model": models[0]})
    if len(methods) == len(models) == 1:
        _train(options, *chosen)
        return
    from sclsearch.api import in_turn
    from sclsearch.cli.results import print_plans, run_in_turn

    act = print_plans if options["dry_run"] else run_in_turn
    act(in_turn(methods, models, chosen[1]), *chosen, as_json=options["json_"])


def train(
    options: o.TrainOptions,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="STUDY", rich_help_panel=SEARCH)
    ] = None,
) -> None:
    """Train one configuration with every seed: the space's default one, changed by --set.

    --from takes the configuration of another study's winner instead.

    Example: sclsearch train --method scl --task cola --set tau=0.3

    Options:
        --from: Take method, task, model, protocol and hyperparameters of this study's winner;
            other options override them.
    """
    _train(options, *spec_and_options(options, searched=False, from_study=from_))


def rerun(
    key: str,
    storage: o.Storage = DEFAULT_STORAGE,
    data_dir: o.DataDir = None,
    method: o.OwnMethod = None,
) -> None:
    """Train one seed run again and check that the result is identical, bit for bit.

    Exit code 1 if the result differs.

    Options:
        key: Key of a seed run, or a prefix of it.
    """
    from sclsearch.search.run import rerun as again

    found = again(storage_folder(storage, make=False), key, data_dir, method)
    write(f"{found.key[:12]} {_ended(found)}\n")
    if not found.same:
        sys.exit(1)


def _ended(found: "Comparison") -> str:
    before, now = (f and str(f) for f in (found.before, found.now))
    if found.same:
        way = f"failed again in the same way ({now})" if now else "is identical in every number"
        return f"{way}; {found.seconds:.1f} s."
    if now:
        had = f"had failed otherwise ({before})" if before else "had finished"
        return f"{had}; this time it failed ({now})."
    if before:
        return f"had failed ({before}); this time it finished."
    return f"differs in {', '.join(found.differing)}."


def _train(values: o.Values, spec: StudySpec, options: RunOptions) -> None:
    from sclsearch.cli.results import print_plan, run_search

    if not values["dry_run"]:
        run_search(spec, options, as_json=values["json_"])
        return
    from sclsearch.search.plan import plan_prepared
    from sclsearch.search.prepare import prepare_study

    planned = plan_prepared(prepare_study(spec, options, dry=True))
    print_plan(planned, as_json=values["json_"])


def confirm(
    studies: list[str],
    resources: o.ResourceOptions,
    seeds: Annotated[int, typer.Option(min=1, max=MOST_SEEDS)] = 10,
    rule: o.StudyRule = None,
    method: o.OwnMethod = None,
) -> None:
    """Re-evaluate winners on new seeds, without selection bias.

    Several studies are compared on their new seeds.

    Options:
        studies: One or more studies, see `sclsearch ls studies`.
        --seeds: Number of new seeds of each.
    """
    from sclsearch.cli.results import print_plan, run_confirmations
    from sclsearch.papers.confirm import prepare_confirmation
    from sclsearch.search.plan import plan_prepared

    options = repeat_options(resources, rule=rule, custom_method=method)
    if not resources["dry_run"]:
        run_confirmations(studies, seeds, options, as_json=resources["json_"])
        return
    for study in studies:
        _, prepared = prepare_confirmation(study, seeds, options, dry=True)
        print_plan(plan_prepared(prepared), as_json=resources["json_"])
