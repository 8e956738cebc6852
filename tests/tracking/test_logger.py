"""Tests of the MLflow logger with dead, hanging, late and refusing servers."""

import os
import signal
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import ui_command
from tests.processes import listens, wait_for
from tests.tracking.conftest import Shown, Write

STUDY = RunRecord("s", (), {"task": "rte"})
REFUSED = RunRecord("s", (0,), metrics={"not@allowed": 1.0})


def missing(uri: str, *records: RunRecord, timeout: float = 60.0) -> str:
    """Return the reason why MLflow lacks records."""
    logger = MLflowLogger(uri)
    for record in records:
        logger.put(record)
    return logger.close(timeout) or ""


def test_a_dead_server_costs_no_time_and_the_reason_hides_the_password(
    dead_port: int, study: list[RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    logger = MLflowLogger(f"http://someone:secret@127.0.0.1:{dead_port}")
    start = time.perf_counter()
    for record in study * 50:
        logger.put(record)
    assert (time.perf_counter() - start) / (50 * len(study)) < 0.001
    time.sleep(1)
    start = time.perf_counter()
    reason = logger.close()
    assert time.perf_counter() - start < 20
    assert reason == (
        f"http://***@127.0.0.1:{dead_port}: {50 * len(study)} entries missing "
        "([Errno 111] Connection refused)"
    )


def test_close_returns_at_its_timeout_if_the_server_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hanging = f"http://127.0.0.1:{listener.getsockname()[1]}"
        start = time.perf_counter()
        reason = missing(hanging, STUDY, timeout=0.5)
        assert time.perf_counter() - start < 2
        assert reason == f"{hanging}: 1 entry missing (not done after 0.5 s)"


def test_a_refused_record_is_reported_and_does_not_block_the_others(uri: str, write: Write) -> None:
    reason = missing(uri, REFUSED, STUDY)
    assert reason.startswith(f"{uri}: 1 entry missing (")
    assert "not@allowed" in reason
    assert write(STUDY) == 0


def test_a_deleted_experiment_or_a_file_that_is_no_database_is_named(
    uri: str, write: Write, shown: Shown, tmp_path: Path
) -> None:
    record = replace(STUDY, experiment="rte, minilm")
    write(record)
    number = shown.client.get_experiment_by_name("rte, minilm").experiment_id
    shown.client.delete_experiment(number)
    assert missing(uri, record) == (
        f"{uri}: 1 entry missing (the experiment 'rte, minilm' is deleted there; "
        f"restore it: mlflow experiments restore -x {number})"
    )
    file = tmp_path / "junk.db"
    file.write_text("junk\n" * 1000)
    assert missing(f"sqlite:///{file}", STUDY).startswith(f"sqlite:///{file}: 1 entry missing (")


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
        assert logger.close() is None
        assert capsys.readouterr().out == ""
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(30)
    assert write(*study) == 0
