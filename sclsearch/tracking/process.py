"""Process that writes records to MLflow, which would use the time of the search's process."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.tracking.records import RunRecord, with_results
from sclsearch.tracking.writer import Writer, failure_reason, is_unreachable

Fault = tuple[str, bool]
"""Reason why a call failed, and whether MLflow was unreachable."""
ENDED = "the process that writes to MLflow ended"


class TrackingError(SclsearchError):
    """Error of MLflow in the process that writes to it."""

    def __init__(self, reason: str, unreachable: bool) -> None:
        super().__init__(reason)
        self.unreachable = unreachable


class WriterProcess:
    """`Writer` in a process of its own.

    It begins with the first call, and ends with this process or with `close`.
    """

    def __init__(self, uri: str, storage: Storage) -> None:
        self._uri, self._storage = uri, storage
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._ended = False

    def write(self, record: RunRecord) -> None:
        """Write a record, with the results of a stored seed run; raise TrackingError on a fault."""
        self.call(_write, record, self._storage)

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Return `function(writer, *arguments)` of the process; raise TrackingError for a fault."""
        if self._ended:
            raise TrackingError(ENDED, unreachable=True)
        try:
            pipe = self._pipe = self._pipe or self._start()
            pipe.send((function, *arguments))
            result, fault = pipe.recv()
        except (OSError, EOFError) as error:  # the next call starts another one
            self._kill()
            raise TrackingError(ENDED, unreachable=True) from error
        if fault is not None:
            raise TrackingError(*fault)
        return result

    def close(self) -> None:
        """End the process, also while it waits for MLflow."""
        self._ended = True
        self._kill()

    def _kill(self) -> None:
        self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        # Not `multiprocessing`: it would run the user's script again, in the new process.
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C ends the search, which then writes the rest
            )
        # Not an argument: it may have a password, and all users see arguments.
        ours.send(self._uri)
        return ours


def serve(pipe: Connection) -> None:
    """Call functions for a `WriterProcess` until its end, and answer with result and fault."""
    writer = Writer(pipe.recv())
    while True:
        try:
            function, *arguments = pipe.recv()
        except EOFError:
            return
        answer: tuple[Any, Fault | None]
        try:
            answer = function(writer, *arguments), None
        except Exception as error:
            answer = None, (failure_reason(error), is_unreachable(error))
        pipe.send(answer)


def _write(writer: Writer, record: RunRecord, storage: Storage) -> None:
    if record.results is not None:
        key, metric = record.results
        run = RunStore(storage).get(key)  # None for a failure that counts in this search alone
        record = replace(record, results=None) if run is None else with_results(record, run, metric)
    writer.write(record)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
