"""Trains one stored seed run again and compares it bit for bit."""

from dataclasses import dataclass
from pathlib import Path

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.search.again import check_unchanged, path_again, what_again
from sclsearch.search.options import How
from sclsearch.search.resolve import resolve
from sclsearch.search.study import Study
from sclsearch.store.places import Storage
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.training.job import Job

COMPARED = ("stages", "evaluations", "kept", "test", "predictions")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A seed run beside its repetition.

    Attributes:
        key: Its name in the run store.
        differing: Which of stages, evaluations, kept, test and predictions are not equal.
        seconds: How long the repetition took.
        failure: How the stored seed run failed; None if it did not.
    """

    key: str
    differing: tuple[str, ...]
    seconds: float
    failure: str | None


def rerun(
    storage: Storage, start: str, data_dir: Path | None = None, weights: Path | None = None
) -> Comparison:
    """Trains a seed run again, with the threads it had, and compares every figure.

    Args:
        storage: Where it is stored.
        start: The beginning of the key.
        data_dir: Where the task's files are now, if they moved.
        weights: A file for the weights, `.safetensors`.

    Raises:
        SclsearchError: There is no such seed run, or what it was made from has changed.
    """
    import torch

    from sclsearch.search.tokenised import tokenised
    from sclsearch.training.engine import train
    from sclsearch.training.job import Work
    from sclsearch.training.weights import save_weights

    runs = RunStore(storage)
    run = runs.get(runs.find(start))
    if run is None:
        raise SclsearchError(f"{start}: the seed run was deleted just now.")
    study, job = _job(run, data_dir)
    torch.set_num_threads(int(run.environment.get("threads", 1)))
    outcome = train(Work(job, tokenised(study, [job.parts])[job.training.max_length]))
    if weights is not None:
        save_weights(weights, outcome, job)
    differing = [
        name
        for name in COMPARED
        if canonical(getattr(run, name)) != canonical(getattr(outcome, name))
    ]
    failure = f"{run.failure.cause}: {run.failure.message}" if run.failure else None
    return Comparison(run.key, tuple(differing), outcome.seconds, failure)


def _job(run: SeedRun, data_dir: Path | None) -> tuple[Study, Job]:
    origin, fields = run.origin, run.identity["fields"]
    what = what_again(
        origin,
        fields,
        fresh=origin.get("fresh"),
        first_fresh=origin.get("first_fresh"),
        crossed=origin.get("crossed"),
    )
    gpus = 1.0 if run.identity["numerics"].startswith("cuda") else 0.0
    how = How(data_dir=data_dir or path_again(origin["data_dir"]), gpus_per_trial=gpus)
    study = resolve(what, how)
    job = study.job(what.settings, int(origin["replicate"]))
    check_unchanged(run.key[:12], "the seed run", run.identity, job.identity)
    return study, job
