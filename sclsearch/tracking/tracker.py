"""Delivery of records to MLflow: in the background during a study, or all at once later."""

import re
from collections.abc import Iterable
from queue import SimpleQueue
from threading import Event, Thread

from sclsearch.errors import SclsearchError
from sclsearch.tracking.server import masked
from sclsearch.tracking.views import View
from sclsearch.tracking.writer import Writer

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 30.0
_ATTEMPTS = 2
# SQLite's error messages for a damaged file.
_NO_DATABASE = ("file is not a database", "database disk image is malformed")


class Tracker:
    """Background writer of records to MLflow, which neither stops nor slows a study.

    A record that MLflow does not accept now waits for the server. Only one thread may call `put`
    and `close`.
    """

    def __init__(self, uri: str, experiment: str = "sclsearch") -> None:
        self._where = masked(uri)
        self._writer = Writer(uri, experiment)
        self._queue: SimpleQueue[View | None] = SimpleQueue()
        self._closing = Event()
        self._put = 0
        self._written = 0
        self._refused = 0
        self._fault = ""
        self._thread = Thread(target=self._work, name="sclsearch-tracking", daemon=True)
        self._thread.start()

    def put(self, view: View) -> None:
        """Queue a record: first a study, then its configurations, then their seed runs."""
        self._put += 1
        self._queue.put(view)

    def close(self, timeout: float = 30.0) -> str | None:
        """Write the remaining records, as far as the server and the time allow.

        Args:
            timeout: Seconds until the function gives up. It retries a dead server once.

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
        reason = f" ({self._fault})" if self._fault else ""
        if self._thread.is_alive():
            return f"{self._where} took more than {timeout:g} s: {entries}{reason}"
        if self._refused == missing:
            return f"{self._where} refused a part: {entries}{reason}"
        return f"could not reach {self._where}: {entries}{reason}"

    def _work(self) -> None:
        while (view := self._queue.get()) is not None:
            if not self._deliver(view):
                return

    def _deliver(self, view: View) -> bool:
        """Write a record; return False if neither it nor later records can be written."""
        wait = _FIRST_WAIT
        refusals = 0
        while True:
            last = self._closing.is_set()
            try:
                self._writer.write(view)
            except Exception as error:
                self._fault = _reason(error)
            else:
                self._written += 1
                return True
            if self._writer.answers():
                refusals += 1
                if refusals == _ATTEMPTS:
                    self._refused += 1
                    return True
            elif last:
                return False
            self._closing.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT)


def complete(uri: str, views: Iterable[View], experiment: str = "sclsearch") -> int:
    """Write all records now, except those that MLflow already has.

    Args:
        uri: The MLflow tracking URI.
        views: The records: a study before its configurations, and these before their seed runs.
        experiment: Name of the MLflow experiment for all studies.

    Returns:
        The number of runs created.

    Raises:
        SclsearchError: MLflow is unreachable, or rejects records; it then still has the others.
    """
    writer = Writer(uri, experiment)
    refused: dict[str, None] = {}
    for view in views:
        _show(writer, view, masked(uri), refused)
    if refused:
        raise SclsearchError("\n".join(refused))
    return writer.created


def _show(writer: Writer, view: View, where: str, refused: dict[str, None]) -> None:
    try:
        writer.write(view)
    except SclsearchError:
        raise
    except Exception as error:
        reason = _reason(error)
        if not writer.answers():
            mend = _mend(reason, where)
            raise SclsearchError(f"{where}: MLflow must answer, but {reason}. {mend}") from None
        refused[f"{where}: MLflow must take every entry, but {reason}"] = None


def _mend(reason: str, where: str) -> str:
    """Return advice for the case that MLflow does not answer."""
    if any(told in reason for told in _NO_DATABASE):
        return "Move the file away: `sclsearch track` makes a new one and fills it"
    if re.search(r"error code 40[13]\b", reason):
        return (
            "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, "
            "and repeat"
        )
    return "Mend that and repeat" if where.startswith("sqlite") else "Start the server and repeat"


def _reason(error: Exception) -> str:
    """Return a one-line reason; for a broken connection, the system's without MLflow's wrapper."""
    told: BaseException = error
    link = error.__cause__ or error.__context__
    while link is not None:
        told = link if isinstance(link, OSError) else told
        link = link.__cause__ or link.__context__
    lines = masked(str(told)).strip().splitlines() or [type(told).__name__]
    return lines[0][:200]
