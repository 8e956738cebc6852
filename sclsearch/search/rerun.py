"""Trains one stored seed run again and compares it bit for bit."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.search.again import check_unchanged, data_dir_again, method_again, what_before
from sclsearch.search.machines import first_sentence
from sclsearch.search.options import How
from sclsearch.search.resolve import resolve
from sclsearch.search.study import Study
from sclsearch.store.objects import check_writable, keep_file
from sclsearch.store.places import Storage
from sclsearch.store.runs import Failure, RunStore, SeedRun
from sclsearch.training.faults import is_out_of_memory
from sclsearch.training.job import Job
from sclsearch.training.precision import device_for

COMPARED = ("stages", "evaluations", "kept", "test", "predictions")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A seed run beside its repetition.

    Attributes:
        key: Its name in the run store.
        differing: Which of stages, evaluations, kept, test and predictions are not equal.
        seconds: How long the repetition took.
        before: How the stored seed run failed; None if it did not.
        now: How the repetition failed; None if it did not.
    """

    key: str
    differing: tuple[str, ...]
    seconds: float
    before: Failure | None
    now: Failure | None

    @property
    def same(self) -> bool:
        """Whether both ended alike, with the same figures or by the same failure."""
        return not self.differing and self.before == self.now


def rerun(
    storage: Storage,
    start: str,
    data_dir: Path | None = None,
    weights: Path | None = None,
    method: str | None = None,
) -> Comparison:
    """Trains a seed run again, with the threads it had, and compares every figure.

    Args:
        storage: Where it is stored.
        start: The beginning of the key.
        data_dir: Where the task's files are now, if they moved.
        weights: A file for the weights, `.safetensors`; not written if it fails.
        method: `FILE.py:CLASS`, required if the seed run's method is in a file: its hash must be
            the stored one.

    Raises:
        SclsearchError: There is no such seed run, what it was made from has changed, or the file
            cannot be written; it was trained on a GPU, and there is none, or memory is too small.
    """
    import torch

    from sclsearch.search.tokenised import tokenised
    from sclsearch.search.trial import Bench, attempt
    from sclsearch.training.weights import save_weights

    runs = RunStore(storage)
    run = runs.get(runs.find(start))
    if run is None:
        raise SclsearchError(f"{start}: the seed run was deleted just now.")
    if weights is not None:
        _check_file(weights)
    study, job = _study_and_job(run, data_dir, method)
    device_for(study.numerics)  # raises where there is no GPU
    threads = int(run.environment.get("threads", 1))
    torch.set_num_threads(threads)
    bench = Bench(
        study=study,
        name=str(run.origin["study"]),
        storage=storage,
        tokens=tokenised(study, [job.parts]),
        parts={},
        threads=threads,
        origin=run.origin,
    )
    try:
        again, result = attempt(job, bench, int(run.origin["configuration"]))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise SclsearchError(
            f"{run.key[:12]}: memory must suffice to train it again, but: "
            f"{first_sentence(str(error))}. Take a machine with more, or one without other work."
        ) from error
    if weights is not None and result is not None:
        keep_file(weights.absolute(), partial(save_weights, result=result, job=job))
    differing = [
        name
        for name in COMPARED
        if canonical(getattr(run, name)) != canonical(getattr(again, name))
    ]
    return Comparison(run.key, tuple(differing), again.seconds, run.failure, again.failure)


def _check_file(path: Path) -> None:
    check_writable(path.absolute().parent)
    if path.is_dir():
        raise SclsearchError(f"{path}: it must be a file, but it is a folder. Name one in it.")


def _study_and_job(run: SeedRun, data_dir: Path | None, method: str | None) -> tuple[Study, Job]:
    origin = run.origin
    if "seat" in run.identity["seeds"]:
        raise SclsearchError(
            f"{run.key[:12]}: was trained in lockstep, which only release 0.1.0 can repeat. Use "
            "that release."
        )
    digest = run.identity.get("method_file", "")
    own = method_again(origin, digest, method, f"seed run {run.key[:12]}")
    what = what_before(origin, run.identity["fields"], own)
    gpus = 1.0 if run.identity["numerics"].startswith("cuda") else 0.0
    how = How(data_dir=data_dir_again(origin, data_dir), gpus_per_trial=gpus)
    study = resolve(what, how)
    job = study.job(what.settings, int(origin["replicate"]))
    check_unchanged(run.key[:12], "the seed run", run.identity, job.identity)
    return study, job
