"""Process that writes records to MLflow, which would use the time of the search's process."""

import os
import subprocess
import sys
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.tracking.records import RunRecord, with_results
from sclsearch.tracking.writer import Writer, failure_reason, is_unreachable

Fault = tuple[str, bool]
"""Reason why a record was not written, and whether MLflow was unreachable."""


class WriterProcess:
    """`Writer` in a process of its own.

    It begins with the first record, and ends with this process or with `end`.
    """

    def __init__(self, uri: str, storage: Storage) -> None:
        self._uri, self._storage = uri, storage
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._ended = False

    def write(self, record: RunRecord) -> Fault | None:
        """Write a record, with the stored results of a seed run; return a fault or None."""
        ended = "the process that writes to MLflow ended", True
        if self._ended:
            return ended
        try:
            pipe = self._pipe = self._pipe or self._start()
            pipe.send(record)
            fault: Fault | None = pipe.recv()
        except (OSError, EOFError):  # the next record starts another one
            self._kill()
            return ended
        return fault

    def end(self) -> None:
        """End the process, also while it waits for MLflow."""
        self._ended = True
        self._kill()

    def _kill(self) -> None:
        self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self) -> "Connection":
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
        ours.send((self._uri, self._storage))
        return ours


def serve(pipe: Connection) -> None:
    """Write the records of a `WriterProcess` until its end, and answer to each."""
    uri, storage = pipe.recv()
    writer, runs = Writer(uri), RunStore(storage)
    while True:
        try:
            record = pipe.recv()
        except EOFError:
            return
        fault = None
        try:
            writer.write(_completed(record, runs))
        except Exception as error:
            fault = failure_reason(error), is_unreachable(error)
        pipe.send(fault)


def _completed(record: RunRecord, runs: RunStore) -> RunRecord:
    if record.results is None:
        return record
    key, metric = record.results
    run = runs.get(key)  # None for a failure that counts in this search alone
    return replace(record, results=None) if run is None else with_results(record, run, metric)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
