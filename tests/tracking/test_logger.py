"""Tests of the MLflow logger with dead, hanging, late and refusing servers."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import ui_command
from tests.processes import listens, wait_for
from tests.tracking.conftest import Shown, Write

STUDY = RunRecord("s", (), {"task": "rte"})
REFUSED = RunRecord("s", (0,), metrics={"not@allowed": 1.0})


@pytest.fixture
def hanging() -> Iterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_closing_an_idle_logger_twice_is_allowed(uri: str) -> None:
    logger = MLflowLogger(uri)
    assert logger.close() is None
    assert logger.close() is None


def test_a_dead_server_costs_no_time_and_the_reason_hides_the_password(
    dead_port: int, study: list[RunRecord]
) -> None:
    logger = MLflowLogger(f"http://someone:secret@127.0.0.1:{dead_port}")
    start = time.perf_counter()
    for record in study * 50:
        logger.put(record)
    assert (time.perf_counter() - start) / (50 * len(study)) < 0.001
    time.sleep(1)
    start = time.perf_counter()
    reason = logger.close(timeout=10)
    assert time.perf_counter() - start < 5
    assert reason == (
        f"could not reach http://***@127.0.0.1:{dead_port}: {50 * len(study)} entries missing "
        "([Errno 111] Connection refused)"
    )
    assert logger.remedy == "Start the server and repeat."


def test_close_returns_at_its_timeout_if_the_server_hangs(hanging: str) -> None:
    logger = MLflowLogger(hanging)
    logger.put(STUDY)
    start = time.perf_counter()
    reason = logger.close(timeout=0.5)
    assert time.perf_counter() - start < 2
    assert reason == f"{hanging} took more than 0.5 s: 1 entry missing"


def test_a_refused_record_is_reported_and_does_not_block_the_others(uri: str, write: Write) -> None:
    logger = MLflowLogger(uri)
    for record in (REFUSED, STUDY):
        logger.put(record)
    reason = logger.close()
    assert reason is not None
    assert reason.startswith(f"{uri} refused a part: 1 entry missing (")
    assert "not@allowed" in reason
    assert write([STUDY]) == 0


def test_a_deleted_experiment_is_named_with_the_command_that_restores_it(
    uri: str, write: Write, shown: Shown
) -> None:
    record = replace(STUDY, experiment="rte, minilm")
    write([record])
    number = shown.client.get_experiment_by_name("rte, minilm").experiment_id
    shown.client.delete_experiment(number)
    logger = MLflowLogger(uri)
    logger.put(record)
    assert logger.close() == (
        f"{uri} refused a part: 1 entry missing (the experiment 'rte, minilm' is deleted there; "
        f"restore it: mlflow experiments restore -x {number})"
    )


def test_a_file_that_is_no_database_is_reported_with_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    file.write_text("junk\n" * 1000)
    logger = MLflowLogger(f"sqlite:///{file}")
    logger.put(STUDY)
    reason = logger.close(timeout=None)
    assert reason is not None
    assert reason.startswith(f"could not reach sqlite:///{file}: 1 entry missing (")
    assert logger.remedy.startswith("Move the file away")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_starts_late_gets_all_records_and_standard_output_nothing(
    uri: str,
    port: int,
    study: list[RunRecord],
    write: Write,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = MLflowLogger(f"http://127.0.0.1:{port}")
    for record in study:
        logger.put(record)
    command, environment = ui_command(uri, port)
    server = subprocess.Popen(
        command,
        env=os.environ | environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for("the server", lambda: listens(port), 90)
        assert logger.close(timeout=30) is None
        assert capsys.readouterr().out == ""
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    assert write(study) == 0


def test_a_server_that_requires_a_password_is_reported_with_a_remedy() -> None:
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
        logger = MLflowLogger(f"http://127.0.0.1:{server.server_port}")
        logger.put(STUDY)
        assert "error code 401" in str(logger.close(timeout=None))
        server.shutdown()
    assert logger.remedy.startswith("Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD")
