"""A dead, hanging or late server neither stops nor slows who puts, and nothing is lost."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sclsearch.errors import SclsearchError
from sclsearch.tracking import (
    ScoreView,
    SeedRunView,
    StudyView,
    Tracker,
    View,
    complete,
    prepare,
    ui_command,
)


@pytest.fixture
def port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def hanging() -> Iterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_tracker_shows_what_complete_shows(uri: str, study: list[View]) -> None:
    tracker = Tracker(uri)
    for view in study:
        tracker.put(view)
    assert tracker.close() is None
    assert complete(uri, study) == 0


def test_closing_twice_and_closing_an_idle_tracker_is_allowed(uri: str) -> None:
    tracker = Tracker(uri)
    assert tracker.close() is None
    assert tracker.close() is None


def test_a_dead_server_costs_nothing_and_all_is_shown_afterwards(
    uri: str, dead_port: int, study: list[View]
) -> None:
    tracker = Tracker(f"http://someone:secret@127.0.0.1:{dead_port}")
    start = time.perf_counter()
    for view in study * 50:
        tracker.put(view)
    assert (time.perf_counter() - start) / (50 * len(study)) < 0.001
    time.sleep(1)
    start = time.perf_counter()
    told = tracker.close(timeout=10)
    assert time.perf_counter() - start < 5
    assert told is not None
    assert told.startswith(
        f"could not reach http://***@127.0.0.1:{dead_port}: {50 * len(study)} entries missing"
    )
    assert "secret" not in told
    assert complete(uri, study) == 9


def test_a_server_that_hangs_does_not_hold_close_beyond_its_timeout(hanging: str) -> None:
    tracker = Tracker(hanging)
    tracker.put(StudyView("s"))
    start = time.perf_counter()
    told = tracker.close(timeout=0.5)
    assert time.perf_counter() - start < 2
    assert told == f"{hanging} took more than 0.5 s: 1 entry missing"


def test_an_entry_that_is_refused_does_not_hold_up_the_others(uri: str) -> None:
    tracker = Tracker(uri)
    tracker.put(ScoreView("s", 0, {"not@allowed": 1.0}))
    tracker.put(StudyView("s", {"task": "rte"}))
    told = tracker.close()
    assert told is not None
    assert told.startswith(f"{uri} refused a part: 1 entry missing (")
    assert "not@allowed" in told
    assert complete(uri, [StudyView("s", {"task": "rte"})]) == 0


def test_completing_without_a_server_is_an_error_without_its_password(dead_port: int) -> None:
    with pytest.raises(SclsearchError) as caught:
        complete(f"http://someone:secret@127.0.0.1:{dead_port}", [StudyView("s")])
    assert str(caught.value) == (
        f"http://***@127.0.0.1:{dead_port}: MLflow must answer, but [Errno 111] Connection refused."
        " Start the server and repeat"
    )


def test_a_file_that_is_no_database_is_told_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    file.write_text("junk\n" * 1000)
    with pytest.raises(SclsearchError) as caught:
        complete(f"sqlite:///{file}", [StudyView("s")])
    told = str(caught.value)
    assert told.startswith(f"sqlite:///{file}: MLflow must answer, but ")
    assert told.endswith("Move the file away: `sclsearch track` makes a new one and fills it")


def test_completing_shows_the_rest_and_names_what_is_refused(uri: str) -> None:
    bad = SeedRunView("s", 0, 0, "k", summary={"not@allowed": 1.0})
    with pytest.raises(SclsearchError, match="not@allowed"):
        complete(uri, [bad, StudyView("s", {"task": "rte"})])
    assert complete(uri, [StudyView("late")]) == 1
    assert complete(uri, [StudyView("s", {"task": "rte"})]) == 0


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_starts_late_gets_everything(uri: str, port: int, study: list[View]) -> None:
    tracker = Tracker(f"http://127.0.0.1:{port}")
    for view in study:
        tracker.put(view)
    command, environment = ui_command(uri, port)
    server = subprocess.Popen(
        command,
        env=os.environ | environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.2)
        assert tracker.close(timeout=30) is None
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    assert complete(uri, study) == 0


def test_a_server_that_wants_a_password_says_how_to_give_it() -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.end_headers()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(SclsearchError, match=r"error code 401.* MLFLOW_TRACKING_USERNAME and"):
            complete(f"http://127.0.0.1:{server.server_port}", [StudyView("s")])
        server.shutdown()


@pytest.mark.parametrize(
    ("uri", "cure"),
    [
        ("postgresql://me:secret@127.0.0.1/x", r"pip install 'psycopg\[binary\]'"),
        ("mysql://me:secret@127.0.0.1/x", "pip install mysqlclient"),
        ("postgresql+nothing://me:secret@127.0.0.1/x", "dialects:postgresql.nothing"),
    ],
)
def test_a_database_without_its_driver_is_refused_before_a_search(uri: str, cure: str) -> None:
    with pytest.raises(SclsearchError, match=cure) as caught:
        prepare(uri)
    assert "secret" not in str(caught.value)
