"""Repetition of one stored seed run, with a bit-for-bit comparison."""

from dataclasses import dataclass
from pathlib import Path

from sclsearch.canonical import canonical
from sclsearch.errors import SclsearchError
from sclsearch.store.runs import Failure, RunStore
from sclsearch.store.storage import Storage
from sclsearch.study.resources import first_sentence
from sclsearch.study.restore import restore_seed_run
from sclsearch.training.device import backend_for, is_out_of_memory

COMPARED = ("stages", "evaluations", "kept", "test", "predictions")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a stored seed run with its repetition.

    Attributes:
        differing: The parts that differ, of stages, evaluations, kept, test and predictions.
        seconds: Seconds that the repetition took.
        before: Failure of the stored seed run; None if it succeeded.
        now: Failure of the repetition; None if it succeeded.
    """

    key: str
    differing: tuple[str, ...]
    seconds: float
    before: Failure | None
    now: Failure | None

    @property
    def same(self) -> bool:
        """True if both have identical results or the same failure."""
        return not self.differing and self.before == self.now


def rerun(
    storage: Storage,
    start: str,
    data_dir: Path | None = None,
    method: str | None = None,
) -> Comparison:
    """Train a stored seed run again, with the same number of threads, and compare every result.

    Args:
        storage: The storage of the seed run.
        start: The first characters of the key.
        data_dir: Folder of the task's files, if they moved.
        method: `FILE.py:CLASS`, required if the seed run's method is in a file: its hash must be
            the stored one.

    Raises:
        SclsearchError: The seed run does not exist, or its inputs have changed. Or it was trained
            on a GPU and this machine has none, or memory is too small.
    """
    import torch

    from sclsearch.ray_backend.worker import WorkerContext, attempt
    from sclsearch.study.tokenized import tokenized

    runs = RunStore(storage)
    run = runs.get(runs.find(start))
    if run is None:
        raise SclsearchError(f"{start}: the seed run was deleted just now.")
    study, seed_run_spec = restore_seed_run(run, data_dir, method)
    backend_for(study.numerics)  # raises if the seed run needs a GPU and there is none
    threads = int(run.environment.get("threads", 1))
    torch.set_num_threads(threads)
    context = WorkerContext(
        study=study,
        name=str(run.origin["study"]),
        storage=storage,
        tokens=tokenized(study, [seed_run_spec.splits]),
        splits={},
        threads=threads,
        origin=run.origin,
    )
    try:
        number = int(run.origin["configuration"])
        again, _ = attempt(seed_run_spec, context, number, test=not run.untested)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise SclsearchError(
            f"{run.key[:12]}: out of memory: {first_sentence(str(error))}. Use a machine with more "
            "memory, or one without other work."
        ) from error
    differing = [
        name
        for name in COMPARED
        if canonical(getattr(run, name)) != canonical(getattr(again, name))
    ]
    return Comparison(run.key, tuple(differing), again.seconds, run.failure, again.failure)
