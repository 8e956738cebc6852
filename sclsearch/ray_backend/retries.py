"""Lost seed runs: how often each is tried again, and when a machine is at fault and not it."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sclsearch.errors import SclsearchError
from sclsearch.study.seed_runs import SeedRunId

RETRIES: Mapping[str, float] = {
    "hang": 1,
    "out-of-memory": 1,
    # A method that asks a GPU for what it must not does so on every machine.
    "gpu-assert": 1,
    # A seed run that ends its worker every time would go on for ever.
    "worker-lost": 4,
    "storage-lost": 4,
    # A full disk, or one that cannot be written: every further seed run would be lost as well.
    "storage-broken": 0,
    "storage-unseen": 4,
    # Mostly its node is lost and Ray does not know yet.
    "worker-silent": 20,
    # Each takes half a minute. It is never the seed run's fault: the search ends after the last.
    "node-unfit": 20,
    "node-lost": math.inf,
}


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """How a seed run was lost.

    Attributes:
        cause: One of `RETRIES`.
        message: What was seen, one line.
        node: Address of the machine that had it; empty if it is not known.
    """

    cause: str
    message: str
    node: str = ""


class WorkerFailures:
    """What was lost while a search runs, by seed run, and which machines do their work."""

    def __init__(self) -> None:
        self._losses: dict[SeedRunId, list[WorkerFailure]] = defaultdict(list)
        self._sound: set[str] = set()

    def finished_on(self, node: str) -> None:
        """Takes in that a seed run was finished on a machine."""
        self._sound.add(node)

    def count(self, place: SeedRunId) -> int:
        """Returns how often a seed run was lost."""
        return len(self._losses[place])

    def add(self, place: SeedRunId, loss: WorkerFailure) -> bool:
        """Takes in a loss; returns whether the seed run is tried again.

        Raises:
            SclsearchError: It has no try left, but the storage is at fault, or a machine: an unfit
                one, or one where its workers died each time, while others do their work.
        """
        self._losses[place].append(loss)
        alike = [one for one in self._losses[place] if one.cause == loss.cause]
        if len(alike) <= RETRIES[loss.cause]:
            return True
        if loss.cause.startswith("storage-"):
            raise SclsearchError(
                f"--storage: cannot store seed runs: {loss.message.rstrip('.')}. Make room there "
                "or mend it; the same command resumes, and nothing finished is lost."
            )
        nodes = {one.node for one in alike}
        alone = "" not in nodes and len(nodes) == 1 and bool(self._sound - nodes)
        if loss.cause == "node-unfit" or (loss.cause == "worker-lost" and alone):
            raise SclsearchError(
                f"node {loss.node}: it must be able to do seed runs, but one was lost there "
                f"{len(alike)} times: {loss.message.rstrip('.')}. Mend the machine or take it out "
                "of the cluster; the same command goes on."
            )
        return False
