"""Tests of the command `job` with a fake client of the cluster."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest
from ray.job_submission import JobStatus

from tests.workspace import Call


class Client:
    """Fake client of a cluster with one job, whose log breaks off and which no stop ends."""

    status = JobStatus.RUNNING

    def get_job_info(self, job: str) -> SimpleNamespace:
        return SimpleNamespace(submission_id=job, status=self.status)

    def list_jobs(self) -> list[SimpleNamespace]:
        return [self.get_job_info("mine-1")]

    def get_job_status(self, _job: str) -> JobStatus:
        return self.status

    def stop_job(self, _job: str) -> bool:
        return not self.status.is_terminal()

    async def tail_job_logs(self, _job: str) -> AsyncIterator[str]:
        yield "a line\n"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Return the client that the command uses."""
    client = Client()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "")  # restored after the command sets it
    monkeypatch.setattr("sclsearch.ray_backend.jobs._await_answer", lambda _cluster: None)
    monkeypatch.setattr("sclsearch.ray_backend.jobs.JobSubmissionClient", lambda _cluster: client)
    monkeypatch.setattr("sclsearch.ray_backend.jobs.STOP_SECONDS", 0.0)
    return client


@pytest.mark.usefixtures("client")
def test_a_log_that_breaks_off_is_not_taken_for_the_end_of_the_job(sclsearch: Call) -> None:
    result = sclsearch("job", "logs", "mine")
    assert (result.returncode, result.stdout) == (2, "a line\n")
    assert result.stderr == (
        "mine-1: its log broke off, but the job goes on. Run `sclsearch job logs mine` to follow "
        "it again.\n"
    )


@pytest.mark.usefixtures("client")
def test_a_job_that_does_not_end_in_time_is_not_reported_as_stopped(sclsearch: Call) -> None:
    result = sclsearch("job", "stop", "mine")
    assert (result.returncode, result.stderr) == (
        2,
        "mine-1: still running 0 seconds after the stop. `sclsearch job status mine` shows when it "
        "has ended.\n",
    )


def test_a_job_that_ended_before_is_not_reported_as_stopped(
    sclsearch: Call, client: Client
) -> None:
    client.status = JobStatus.STOPPED
    result = sclsearch("job", "stop", "mine")
    assert (result.returncode, result.stderr) == (
        0,
        "mine-1 had already ended. Submit the same command again to resume.\n",
    )
