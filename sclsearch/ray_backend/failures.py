"""Retry limits for failed workers, and the decision whether a machine is at fault."""

import logging
import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sclsearch.errors import SclsearchError
from sclsearch.selection.race import SeedRunId

RETRIES: Mapping[str, float] = {
    "hang": 1,
    "out-of-memory": 1,
    # The method raised an exception in the test, as it would on every machine.
    "untestable": 0,
    # A method that triggers a GPU assertion does so on every machine.
    "gpu-assert": 1,
    # Without a limit, a seed run that always kills its worker would retry forever.
    "worker-lost": 4,
    "storage-lost": 4,
    # The disk is full or not writable: every further seed run would fail too.
    "storage-broken": 0,
    # Usually the node is lost and Ray has not yet noticed.
    "worker-silent": 20,
    # The search ends when all nodes are unfit, see `check_nodes`.
    "node-unfit": math.inf,
    "node-lost": math.inf,
}

_LOG = logging.getLogger(__name__)
FINAL = ("out-of-memory", "gpu-assert")
"""Causes that lie in the seed run. After others the next search trains it again."""


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """Failure of a worker before its seed run finished.

    `cause` is one of `RETRIES`; `node` is the machine's address, empty if unknown.
    """

    cause: str
    message: str
    node: str = ""


class WorkerFailures:
    """Worker failures of a search, by seed run, and the machines that work."""

    def __init__(self) -> None:
        self._failures: dict[SeedRunId, list[WorkerFailure]] = defaultdict(list)
        self._sound: set[str] = set()
        self._unfit: dict[str, str] = {}

    def finished_on(self, node: str) -> None:
        self._sound.add(node)
        self._unfit.pop(node, None)

    def check_nodes(self, alive: Collection[str]) -> None:
        """Raise SclsearchError if each of these nodes has said that it cannot train the study."""
        if alive and self._unfit.keys() >= set(alive):
            raise SclsearchError("\n".join(f"node {one}: {self._unfit[one]}" for one in alive))

    @property
    def seed_runs(self) -> Collection[SeedRunId]:
        return self._failures.keys()

    def count(self, run_id: SeedRunId) -> int:
        return len(self._failures.get(run_id, ()))

    def add(self, run_id: SeedRunId, failure: WorkerFailure) -> bool:
        """Record a worker failure; return True if the search retries the seed run.

        Raises:
            SclsearchError: No retry is left and the storage or a machine is at fault. A machine is
                at fault if only its workers died while other machines finish seed runs.
        """
        self._failures[run_id].append(failure)
        if failure.cause == "node-unfit":
            if failure.node not in self._unfit:
                _LOG.warning("node %s trains no seed runs: %s", failure.node, failure.message)
            self._unfit[failure.node] = failure.message
        alike = [one for one in self._failures[run_id] if one.cause == failure.cause]
        if len(alike) <= RETRIES[failure.cause]:
            return True
        if failure.cause.startswith("storage-"):
            raise SclsearchError(
                f"--storage: cannot store seed runs: {failure.message.rstrip('.')}. Make room or "
                "repair the storage, then run the same command to resume; nothing finished is lost."
            )
        nodes = {one.node for one in alike}
        alone = "" not in nodes and len(nodes) == 1 and bool(self._sound - nodes)
        if failure.cause == "worker-lost" and alone:
            raise SclsearchError(
                f"node {failure.node}: a seed run failed there {len(alike)} times: "
                f"{failure.message.rstrip('.')}. Repair the machine or take it out of the cluster, "
                "then run the same command to resume."
            )
        return False
