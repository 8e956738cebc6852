"""Tests of writing to MLflow: runs, repeated writes, and dead, hanging or refusing servers."""

import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sclsearch.tracking import writer as writer_module
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.process import WriterProcess
from sclsearch.tracking.records import RunRecord
from sclsearch.tracking.server import ui_command
from sclsearch.tracking.writer import Writer
from tests.processes import free_port, listens, wait_for
from tests.tracking.conftest import Shown

Write = Callable[..., int]

SEED_RUN = RunRecord(
    "s",
    (0, 0),
    tags={"key": "k"},
    history=((5, {"loss": 1.0}),),
    status="FINISHED",
    started=10.0,
    seconds=2.0,
)


@pytest.fixture
def write(uri: str) -> Write:
    """Return a function that writes records with a new writer and returns how many runs are new."""
    return partial(write_records, uri=uri)


def write_records(*records: RunRecord, uri: str) -> int:
    writer = Writer(uri)
    for record in records:
        writer.write(record)
    return writer.created


@pytest.fixture
def study() -> list[RunRecord]:
    """Return the records of a study with two configurations and three seed runs of each."""
    name = "cola-scl"
    params: dict[str, object] = {"method": "scl", "task": "cola"}
    files = {"space.json": "[1]"}
    records = [RunRecord(name, params=params, tags={"host": "node1"}, artifacts=files, name=name)]
    points = ((10, {"mcc": 0.1}), (20, {"mcc": 0.2}), (20, {"test": 0.4}))
    for number in range(2):
        path, score = (number,), {"score": 0.5 + number / 10}
        records.append(RunRecord(name, path, {"tau": 0.1 * (number + 1)}, name=f"tau={number}"))
        records += [
            RunRecord(
                name,
                (number, replicate),
                tags={"key": f"key-{number}-{replicate}"},
                history=points,
                status="FINISHED",
                started=1_700_000_000.0,
                seconds=12.5,
                artifacts={"history.json": f"[{number}]"},
                name=f"seed {replicate}",
            )
            for replicate in range(3)
        ]
        records.append(RunRecord(name, path, metrics=score, status="FINISHED", part="scores"))
    best = RunRecord(name, metrics={"best": 0.6}, status="FINISHED", part="scores")
    return [*records, best]


def test_study_configuration_and_seed_run_are_three_levels(
    write: Write, shown: Shown, study: list[RunRecord], tmp_path: Path
) -> None:
    from mlflow.artifacts import load_text

    assert write(*study) == 1 + 2 + 2 * 3
    runs = shown.runs()
    top, middle, low = (runs[name] for name in ("cola-scl", "cola-scl/1", "cola-scl/1/2"))
    assert [run.info.run_name for run in (top, middle, low)] == ["cola-scl", "tau=1", "seed 2"]
    assert low.data.tags["mlflow.parentRunId"] == middle.info.run_id
    assert middle.data.tags["mlflow.parentRunId"] == top.info.run_id
    assert "mlflow.parentRunId" not in top.data.tags
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert top.data.params == {"method": "scl", "task": "cola"}
    assert (top.data.metrics, middle.data.params) == ({"best": 0.6}, {"tau": "0.2"})
    assert shown.points(low) == {"mcc": [(10, 0.1), (20, 0.2)], "test": [(20, 0.4)]}
    assert (low.info.start_time, low.info.end_time) == (1_700_000_000_000, 1_700_000_012_500)
    assert load_text(f"{low.info.artifact_uri}/history.json") == "[1]"
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db", "mlartifacts"}


def test_a_running_seed_run_has_its_curve_and_its_end_repeats_no_point(
    write: Write, shown: Shown, study: list[RunRecord]
) -> None:
    (final,) = (one for one in study if one.path == (1, 2))
    live = replace(final, tags={}, history=final.history[:1], status=None, part="live")
    write(study[0], live)
    running = shown.runs()["cola-scl/1/2"]
    assert (running.info.status, shown.points(running)) == ("RUNNING", {"mcc": [(10, 0.1)]})
    write(*study)
    ended = shown.runs()["cola-scl/1/2"]
    assert ended.info.status == "FINISHED"
    assert shown.points(ended) == {"mcc": [(10, 0.1), (20, 0.2)], "test": [(20, 0.4)]}


def test_a_changed_score_is_shown_and_equal_ones_are_not_repeated(
    write: Write, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 200, 10))
    monkeypatch.setattr(writer_module, "time", SimpleNamespace(time=lambda: next(clock)))
    for value in (0.5, 0.5, 0.7, 0.5):
        write(RunRecord("s", (0,), metrics={"score": value, "seeds": 3.0}))
        assert shown.runs()["s/0"].data.metrics["score"] == value
    run = shown.runs()["s/0"]
    assert shown.points(run) == {"score": [(0, 0.5), (0, 0.5), (0, 0.7)], "seeds": [(0, 3.0)]}
    assert run.info.status == "RUNNING"


@pytest.mark.slow
def test_the_records_of_a_killed_writer_are_completed_without_duplicates(
    write: Write, uri: str, shown: Shown, fresh_database: Path, tmp_path: Path
) -> None:
    records = [RunRecord("s", (), {"task": "rte"}), RunRecord("s", (0,), {"tau": 0.1})]
    records += [replace(SEED_RUN, path=(0, r), artifacts={"a.json": f"[{r}]"}) for r in range(100)]
    program = f"""
from sclsearch.tracking.records import RunRecord
from tests.tracking.test_logger import write_records
write_records(*{records!r}, uri={uri!r})
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_for("20 runs", lambda: len(shown.runs()) >= 20, 120)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    existing = len(shown.runs())
    assert 20 <= existing < len(records)
    assert write(*records) == len(records) - existing

    other = f"sqlite:///{shutil.copyfile(fresh_database, tmp_path / 'undisturbed.db')}"
    write(*records, uri=other)
    assert shown.everything() == Shown(other).everything()


def test_a_failed_seed_run_shows_its_last_cause_until_it_succeeds(
    write: Write, shown: Shown
) -> None:
    for cause in ("hang", "out-of-memory"):
        write(replace(SEED_RUN, status="FAILED", tags={"failure": cause}))
        run = shown.runs()["s/0/0"]
        assert (run.info.status, run.data.tags["failure"]) == ("FAILED", cause)
    write(replace(SEED_RUN, history=((5, {"loss": 1.0, "a": math.nan}), (9, {"loss": 0.5}))))
    run = shown.runs()["s/0/0"]
    assert run.info.status == "FINISHED"
    assert "failure" not in run.data.tags
    assert shown.points(run) == {"loss": [(5, 1.0), (9, 0.5)]}


STUDY = RunRecord("s", (), {"task": "rte"})


def missing(uri: str, *records: RunRecord, timeout: float = 60.0) -> str:
    """Return the reason why MLflow lacks records."""
    logger = MLflowLogger(uri, "storage")
    for record in records:
        logger.put(record)
    return logger.close(timeout) or ""


@pytest.mark.timeout(120)  # every record has its own retries otherwise
def test_a_dead_server_is_given_up_once_and_the_reason_hides_the_password(
    study: list[RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    logger = MLflowLogger("http://someone:secret@127.0.0.1:9", "storage")
    records = study * 50
    for record in records:
        logger.put(record)
    assert logger.close() == (
        f"http://***@127.0.0.1:9: {len(records)} entries missing ([Errno 111] Connection refused)"
    )


@pytest.mark.timeout(60)
def test_put_does_not_wait_and_close_returns_at_its_timeout_if_the_server_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hanging = f"http://127.0.0.1:{listener.getsockname()[1]}"
        reason = missing(hanging, STUDY, timeout=0.5)
        assert reason == f"{hanging}: 1 entry missing (no answer for 0.5 s)"


def test_a_deleted_experiment_is_reported(uri: str, write: Write, shown: Shown) -> None:
    deleted = replace(STUDY, experiment="rte, minilm")
    write(deleted)
    number = shown.client.get_experiment_by_name("rte, minilm").experiment_id
    shown.client.delete_experiment(number)
    assert "deleted" in missing(uri, deleted)


def test_a_copied_database_is_not_written_since_its_artifacts_are_the_originals(
    uri: str, write: Write, tmp_path: Path
) -> None:
    write(STUDY)
    before = sorted(tmp_path.rglob("*"))
    (tmp_path / "copy").mkdir()
    shutil.copyfile(tmp_path / "mlflow.db", tmp_path / "copy" / "mlflow.db")
    reason = missing(f"sqlite:///{tmp_path}/copy/mlflow.db", replace(STUDY, artifacts={"a": "b"}))
    assert "the database was copied or moved; delete it" in reason
    assert [path for path in sorted(tmp_path.rglob("*")) if "copy" not in str(path)] == before


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_server_that_starts_late_gets_all_records_and_standard_output_nothing(
    uri: str, study: list[RunRecord], write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    logger = MLflowLogger(f"http://127.0.0.1:{port}", "storage")
    for record in study:
        logger.put(record)
    command, environment = ui_command(uri, port)
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, env=os.environ | environment, start_new_session=True, stdout=quiet, stderr=quiet
    ) as server:
        try:
            wait_for("the server", lambda: listens(port), 90)
            assert logger.close(timeout=30) is None
            assert capsys.readouterr().out == ""
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    assert write(*study) == 0


def test_after_a_lost_answer_nothing_is_written_twice(
    uri: str, write: Write, shown: Shown, study: list[RunRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, calls = Writer(uri), count()
    writer.write(study[0])
    client = writer.client
    for name in ("create_run", "log_batch"):
        request = getattr(client, name)

        def lose_answer(*arguments: Any, request: Any = request, **options: Any) -> Any:
            answer = request(*arguments, **options)
            if next(calls) % 3 == 2:
                raise ConnectionError
            return answer

        monkeypatch.setattr(client, name, lose_answer)
    for record in study:
        for _ in range(9):
            with suppress(ConnectionError):
                writer.write(record)
                break
    points = [shown.points(run) for run in shown.runs().values()]
    assert points.count({"mcc": [(10, 0.1), (20, 0.2)], "test": [(20, 0.4)]}) == 6
    assert sum(len(steps) for one in points for steps in one.values()) == 6 * 3 + 2 + 1
    before = shown.everything()
    for run in shown.runs().values():  # as if the writer was killed before it ended the runs
        shown.client.update_run(run.info.run_id, status="RUNNING")
    assert write(*study) == 0
    assert shown.everything() == before


def test_a_killed_writer_process_is_replaced_and_no_record_is_lost(
    uri: str, write: Write, study: list[RunRecord]
) -> None:
    logger = MLflowLogger(uri, "storage")
    logger.put(study[0])
    wait_for("the first record", lambda: logger._written == 1, 60)
    process = logger.writer._process
    assert process is not None
    process.kill()
    for record in study[1:]:
        logger.put(record)
    assert logger.close() is None
    assert write(*study) == 0


def test_close_waits_while_records_are_written(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WriterProcess, "write", lambda *_: time.sleep(0.2))  # a slow server
    for patient, missing in ((True, False), (False, True)):
        logger = MLflowLogger(uri, "storage")
        for _ in range(5):
            logger.put(STUDY)
        assert bool(logger.close(0.5, patient=patient)) == missing
        assert logger.answers != missing
