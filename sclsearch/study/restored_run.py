"""Restoration of the study and the specification of one stored seed run."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sclsearch.errors import SclsearchError
from sclsearch.store.runs import SeedRun
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import (
    check_unchanged,
    restore_data_dir,
    restore_method,
    restore_spec_as_before,
)
from sclsearch.study.spec import RunOptions
from sclsearch.study.study import Study
from sclsearch.training.spec import SeedRunSpec

if TYPE_CHECKING:
    from sclsearch.methods.base import Method


def restore_seed_run(
    run: SeedRun, data_dir: Path | None = None, method: "str | type[Method] | None" = None
) -> tuple[Study, SeedRunSpec]:
    """Return the study and the specification of a stored seed run, with its data and encoder.

    Args:
        run: The stored seed run.
        data_dir: Folder of the task's files, if they moved.
        method: `FILE.py:CLASS` or a class, required if the seed run's method is in a file.

    Raises:
        SclsearchError: Data, encoder or method are missing or have changed.
    """
    origin = run.origin
    if "seat" in run.identity["seeds"]:
        raise SclsearchError(
            f"{run.key[:12]}: only release 0.1.0 can repeat it, because it trained all replicates "
            "together. Use that release."
        )
    digest = run.identity.get("method_file", "")
    restored = restore_method(origin, digest, method, f"seed run {run.key[:12]}")
    spec = restore_spec_as_before(origin, run.identity["fields"], restored)
    device, _, precision = run.identity["numerics"].partition("-")
    spec, gpus = replace(spec, precision=precision), float(device == "cuda")
    options = RunOptions(data_dir=restore_data_dir(origin, data_dir), gpus_per_trial=gpus)
    study = resolve(spec, options)
    seed_run_spec = study.seed_run_spec(spec.settings, int(origin["replicate"]))
    check_unchanged(run.key[:12], "the seed run", run.identity, seed_run_spec.identity)
    return study, seed_run_spec
