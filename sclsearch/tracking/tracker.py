"""How views reach MLflow: in the background while a study runs, or all at once afterwards."""

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
# As SQLite says it of a damaged file.
_NO_DATABASE = ("file is not a database", "database disk image is malformed")


class Tracker:
    """Shows views from a thread of its own, so that MLflow can neither stop nor slow a study.

    What cannot be shown now waits for the server. One thread puts and closes.
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
        """Queues a view. Put a study before its configurations and these before their seed runs."""
        self._put += 1
        self._queue.put(view)

    def close(self, timeout: float = 30.0) -> str | None:
        """Shows what is left, as far as the server and the time allow.

        Args:
            timeout: Seconds after which to give up. A server that is down is asked once more.

        Returns:
            None if MLflow shows everything, else one line that says why not.
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
        """Returns False once there is no hope left for this view and those after it."""
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
    """Shows all views now; what MLflow has already is not written again.

    Args:
        uri: Where MLflow keeps its records.
        views: A study before its configurations and these before their seed runs.
        experiment: MLflow's name for all studies together.

    Returns:
        The number of runs created.

    Raises:
        SclsearchError: MLflow cannot be reached, or refuses views; then the others are shown.
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
    """Return what to do where MLflow does not answer."""
    if any(told in reason for told in _NO_DATABASE):
        return "Move the file away: `sclsearch track` makes a new one and fills it"
    if re.search(r"error code 40[13]\b", reason):
        return (
            "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, "
            "and repeat"
        )
    return "Mend that and repeat" if where.startswith("sqlite") else "Start the server and repeat"


def _reason(error: Exception) -> str:
    """Returns one line; of a broken connection the system's own, without MLflow's wrapping."""
    told: BaseException = error
    link = error.__cause__ or error.__context__
    while link is not None:
        told = link if isinstance(link, OSError) else told
        link = link.__cause__ or link.__context__
    lines = masked(str(told)).strip().splitlines() or [type(told).__name__]
    return lines[0][:200]
