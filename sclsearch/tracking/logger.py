"""Logger of a search state to MLflow, in the background."""

from collections.abc import Mapping
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from sclsearch.store.storage import Storage
from sclsearch.study.state import SearchState, SeedRunTask
from sclsearch.tracking.process import TrackingError, WriterProcess
from sclsearch.tracking.records import RunRecord, counts, live_record, new_records
from sclsearch.tracking.server import masked

MOST_WAITING = 100
"""Most seed runs that wait while a search trains; with as many, no live evaluations are added."""


class MLflowLogger:
    """Writer of a search state to MLflow in the background; it neither stops nor slows a search.

    MLflow repeats failed requests for some seconds. A record that it still does not accept is
    written again at the end. Only one thread may call `sync` and `close`, and then the `writer`.
    """

    def __init__(self, uri: str, storage: Storage) -> None:
        self._where = masked(uri)
        self.writer = WriterProcess(uri, storage)
        self._synced: tuple[int, ...] | None = None
        self._queue: SimpleQueue[RunRecord | None] = SimpleQueue()
        self._closing = Event()
        self._put = 0
        self._written = 0
        self._server_down = False
        self._reason = ""
        self._thread = Thread(target=self._work, name="sclsearch-tracking", daemon=True)
        self._thread.start()

    def sync(self, state: SearchState, *, ended: bool = True) -> None:
        """Write the records of a state that MLflow lacks; a second call writes only new ones.

        Pass the same state in each call. The winner, and the status of configurations that a race
        left out, are written only after the search has ended. Before, at most `MOST_WAITING` seed
        runs wait in memory; the writer reads their results from the storage.
        """
        since, most = self._synced, None if ended else MOST_WAITING - self._queue.qsize()
        if most is not None and most <= 0:
            return
        configurations, seed_runs, *rest = counts(state)
        if most is not None:
            seed_runs = min(seed_runs, (since or (0, 0))[1] + most)
        self._synced = configurations, seed_runs, *rest
        if ended or since != self._synced:
            for record in new_records(state, since, most, ended=ended):
                self.put(record)

    def put(self, record: RunRecord) -> None:
        """Queue a record: first a study, then its configurations, then their seed runs."""
        self._put += 1
        self._queue.put(record)

    def show(self, state: SearchState, task: SeedRunTask, evaluation: Mapping[str, Any]) -> None:
        """Queue an evaluation of a running seed run, unless many records wait."""
        if self._queue.qsize() < MOST_WAITING:
            self.put(live_record(state, task, evaluation))

    @property
    def answers(self) -> bool:
        """Return True if MLflow answered to the last record, after `close`."""
        return not (self._server_down or self._thread.is_alive())

    def close(
        self, timeout: float | None = 60.0, *, patient: bool = False, end: bool = True
    ) -> str | None:
        """Write the remaining records; return what MLflow lacks in one line, or None.

        After `timeout` seconds the function gives up; if `patient`, only after as many seconds
        without a written record. Without `end`, the writer can be called until its end.
        """
        self._closing.set()
        self._queue.put(None)
        before = -1
        while self._thread.is_alive() and (before < 0 or (patient and before < self._written)):
            before = self._written
            self._thread.join(timeout)
        late = f"no answer for {timeout:g} s" if self._thread.is_alive() else ""
        if end or late:
            self.writer.close()
        missing = self._put - self._written
        if not missing:
            return None
        entries = f"{missing} {'entry' if missing == 1 else 'entries'} missing"
        return f"{self._where}: {entries} ({late or self._reason})"

    def _work(self) -> None:
        failed = [record for record in iter(self._queue.get, None) if not self._write(record)]
        self._server_down = False
        for record in failed:
            self._write(record)

    def _write(self, record: RunRecord) -> bool:
        if self._server_down and self._closing.is_set():
            return False
        try:
            self.writer.write(record)
        except TrackingError as error:
            self._reason, self._server_down = str(error), error.unreachable
            return False
        self._server_down = False
        self._written += 1
        return True
