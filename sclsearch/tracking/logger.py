"""Delivery of records to MLflow in the background, during a search or after it."""

import re
from queue import SimpleQueue
from threading import Event, Thread

from sclsearch.study.state import SearchState
from sclsearch.tracking.records import RunRecord, counts, new_records
from sclsearch.tracking.server import masked
from sclsearch.tracking.writer import Writer

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_ATTEMPTS = 2
# SQLite's error messages for a damaged file.
_NO_DATABASE = ("file is not a database", "database disk image is malformed")


class MLflowLogger:
    """Writer of a search state to MLflow in the background; it neither stops nor slows a search.

    A record that MLflow does not accept now waits for the server. Only one thread may call `sync`
    and `close`.
    """

    def __init__(self, uri: str) -> None:
        self._where = masked(uri)
        self._writer = Writer(uri)
        self._synced: tuple[int, ...] | None = None
        self._queue: SimpleQueue[RunRecord | None] = SimpleQueue()
        self._closing = Event()
        self._put = 0
        self._written = 0
        self._refusals: list[str] = []
        self._unreachable = ""
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

    def close(self, timeout: float | None = 30.0) -> str | None:
        """Write the remaining records, as far as the server and the time allow.

        Args:
            timeout: Seconds until the function gives up; None for never. It retries a dead server
                once.

        Returns:
            None if MLflow has everything, else one line with the reason.
        """
        self._closing.set()
        self._queue.put(None)
        self._thread.join(timeout)
        missing = self._put - self._written
        if not missing:
            return None
        entries = f"{missing} {'entry' if missing == 1 else 'entries'} missing"
        reason = self._unreachable or "; ".join(dict.fromkeys(self._refusals))
        reason = f" ({reason})" if reason else ""
        if self._thread.is_alive():
            return f"{self._where} took more than {timeout:g} s: {entries}{reason}"
        if len(self._refusals) == missing:
            return f"{self._where} refused a part: {entries}{reason}"
        return f"could not reach {self._where}: {entries}{reason}"

    @property
    def remedy(self) -> str:
        """Advice for a user whose MLflow lacks records."""
        if any(message in self._unreachable for message in _NO_DATABASE):
            return "Move the file away: `sclsearch ui` makes a new one and fills it."
        if re.search(r"error code 40[13]\b", self._unreachable):
            return (
                "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                "MLFLOW_TRACKING_TOKEN, and repeat."
            )
        server = self._unreachable and not self._where.startswith("sqlite")
        return "Start the server and repeat." if server else "Fix that and repeat."

    def _work(self) -> None:
        while (record := self._queue.get()) is not None:
            if not self._deliver(record):
                return

    def _deliver(self, record: RunRecord) -> bool:
        """Write a record; return False if neither it nor later records can be written."""
        wait = _FIRST_WAIT
        attempts = 0
        while True:
            last = self._closing.is_set()
            try:
                self._writer.write(record)
            except Exception as error:
                reason = failure_reason(error)
            else:
                self._written += 1
                self._unreachable = ""
                return True
            if self._writer.answers():
                attempts += 1
                if attempts == _ATTEMPTS:
                    self._refusals.append(reason)
                    return True
            else:
                self._unreachable = reason
                if last:
                    return False
            self._closing.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def failure_reason(error: Exception) -> str:
    """Return a one-line reason; for a broken connection, the system's without MLflow's wrapper."""
    cause: BaseException = error
    link = error.__cause__ or error.__context__
    while link is not None:
        cause = link if isinstance(link, OSError) else cause
        link = link.__cause__ or link.__context__
    lines = masked(str(cause)).strip().splitlines() or [type(cause).__name__]
    return lines[0][:200].removesuffix(".")
