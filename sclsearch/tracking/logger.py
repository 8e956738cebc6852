"""Delivery of records to MLflow in the background, during a search or after it."""

from queue import SimpleQueue
from threading import Event, Thread

from sclsearch.study.state import SearchState
from sclsearch.tracking.records import RunRecord, counts, new_records
from sclsearch.tracking.server import masked
from sclsearch.tracking.writer import Writer


class MLflowLogger:
    """Writer of a search state to MLflow in the background; it neither stops nor slows a search.

    MLflow repeats failed requests for some seconds. A record that it still does not accept is
    written again at the end. Only one thread may call `sync` and `close`.
    """

    def __init__(self, uri: str) -> None:
        self._where = masked(uri)
        self._writer = Writer(uri)
        self._synced: tuple[int, ...] | None = None
        self._queue: SimpleQueue[RunRecord | None] = SimpleQueue()
        self._closing = Event()
        self._put = 0
        self._written = 0
        self._away = False
        self._reason = ""
        self._thread = Thread(target=self._work, name="sclsearch-tracking", daemon=True)
        self._thread.start()

    def sync(self, state: SearchState, *, ended: bool = True) -> None:
        """Write the records of a state that MLflow lacks; a second call writes only new ones.

        Pass the same state in each call. Forecasts and winner are written only after the search has
        ended.
        """
        since, self._synced = self._synced, counts(state)
        if ended or since != self._synced:
            for record in new_records(state, since, ended=ended):
                self.put(record)

    def put(self, record: RunRecord) -> None:
        """Queue a record: first a study, then its configurations, then their seed runs."""
        self._put += 1
        self._queue.put(record)

    def close(self, timeout: float | None = 60.0) -> str | None:
        """Write the remaining records; return what MLflow lacks in one line, or None.

        After `timeout` seconds the function gives up.
        """
        self._closing.set()
        self._queue.put(None)
        self._thread.join(timeout)
        missing = self._put - self._written
        if not missing:
            return None
        late = f"not done after {timeout:g} s" if self._thread.is_alive() else ""
        entries = f"{missing} {'entry' if missing == 1 else 'entries'} missing"
        return f"{self._where}: {entries} ({late or self._reason})"

    def _work(self) -> None:
        failed = [record for record in iter(self._queue.get, None) if not self._write(record)]
        self._away = False
        for record in failed:
            self._write(record)

    def _write(self, record: RunRecord) -> bool:
        if self._away and self._closing.is_set():
            return False
        try:
            self._writer.write(record)
        except Exception as error:
            self._reason = failure_reason(error)
            self._away = _origin(error) is not error
            return False
        self._away = False
        self._written += 1
        return True


def failure_reason(error: Exception) -> str:
    """Return a one-line reason; for a broken connection, the system's without MLflow's wrapper."""
    cause = _origin(error)
    lines = masked(str(cause)).strip().splitlines() or [type(cause).__name__]
    return lines[0][:200].removesuffix(".")


def _origin(error: Exception) -> BaseException:
    """Return the system's error behind an error of MLflow, or else the error itself."""
    cause: BaseException = error
    link = error.__cause__ or error.__context__
    while link is not None:
        cause = link if isinstance(link, OSError) else cause
        link = link.__cause__ or link.__context__
    return cause
