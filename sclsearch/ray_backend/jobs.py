"""Searches as Ray jobs, which run on a cluster independently of the submitting machine."""

import asyncio
import logging
import os
import re
import shlex
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)
from ray.dashboard.modules.job import sdk
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from sclsearch.errors import SclsearchError, suggestion
from sclsearch.study.resources import CLUSTER, first_sentence, token_refused

if TYPE_CHECKING:
    from ray.job_submission import JobDetails

ANSWER_SECONDS = 5.0
STOP_SECONDS = 30.0
STOPPED = 130
"""Exit code of a stopped job, as a shell reports it."""

_ATTEMPT = re.compile(r"(?P<name>.+)-(?P<number>\d+)")


class Jobs:
    """Client for the jobs of a Ray cluster, each named `<study>-<attempt>`.

    Args:
        cluster: URL of the cluster's dashboard.

    Raises:
        SclsearchError: The dashboard does not answer, or rejects this machine's token.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster.rstrip("/")
        if not re.fullmatch(r"https?://[^/\s]+", self.cluster):
            raise SclsearchError(
                f"--cluster {cluster}: not the URL of a dashboard. Give http://HOST:8265, or "
                "http://127.0.0.1:8265 for a tunnel to it."
            )
        for module in ("ray", sdk.__name__):  # the SDK sets its own log level
            logging.getLogger(module).setLevel(logging.ERROR)
        # Ray prefers both environment variables to its arguments.
        os.environ["RAY_API_SERVER_ADDRESS"] = self.cluster
        with self._converted_errors():
            maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
            _await_answer(self.cluster)
            self.client = JobSubmissionClient(self.cluster)

    def submit(self, name: str, command: Sequence[str]) -> str:
        """Start a command as the next attempt of a study; return the job's name.

        Raises:
            SclsearchError: An attempt is already running.
        """
        earlier = self.attempts(name)
        if earlier and not earlier[-1].status.is_terminal():
            raise self._running(name, str(earlier[-1].submission_id))
        # The cluster rejects a name that exists, so only one of two concurrent submissions
        # succeeds.
        job = f"{name}-{_number(earlier[-1]) + 1 if earlier else 1}"
        try:
            with self._converted_errors():
                self.client.submit_job(entrypoint=shlex.join(command), submission_id=job)
        except SclsearchError as error:
            if "already exists" in str(error.__cause__):
                raise self._running(name, job) from None
            raise
        return job

    def attempts(self, name: str) -> "list[JobDetails]":
        """Return a study's jobs, oldest first."""
        with self._converted_errors():
            jobs = self.client.list_jobs()
        return sorted((job for job in jobs if _study_of(job) == name), key=_number)

    def latest(self, name: str) -> "JobDetails":
        """Return a study's latest job.

        Raises:
            SclsearchError: The study has no job.
        """
        found = self.attempts(name)
        if found:
            return found[-1]
        with self._converted_errors():
            known = {_study_of(job) for job in self.client.list_jobs()} - {""}
        raise SclsearchError(f"Unknown job {name!r} on {self.cluster}.{suggestion(name, known)}")

    def follow(self, job: str, write: Callable[[str], object]) -> int:
        """Write a job's log from its beginning until the job ends; return its exit code.

        Raises:
            SclsearchError: The cluster stopped answering, could not start the job, or ended the log
                before the job.
        """
        with self._converted_errors():
            asyncio.run(_write_all(self.client.tail_job_logs(job), write))
            ended = self.client.get_job_info(job)
        if not ended.status.is_terminal():
            raise SclsearchError(
                f"{job}: its log broke off, but the job goes on. Run `sclsearch job logs "
                f"{_study_of(ended)}{self.option}` to follow it again."
            )
        if ended.status == JobStatus.STOPPED:
            return STOPPED
        if ended.driver_exit_code is None and ended.status == JobStatus.FAILED:
            message = first_sentence(ended.message)
            raise SclsearchError(f"{job}: the cluster could not start it: {message}.")
        return int(ended.driver_exit_code or 0)

    def stop(self, job: str) -> bool:
        """Stop a job and wait for its end; return True if the stop ended it.

        Raises:
            SclsearchError: The job does not end in time.
        """
        end = time.monotonic() + STOP_SECONDS
        with self._converted_errors():
            running: bool = self.client.stop_job(job)
            while not (status := self.client.get_job_status(job)).is_terminal():
                if time.monotonic() > end:
                    study = job.rpartition("-")[0]
                    raise SclsearchError(
                        f"{job}: still running {STOP_SECONDS:g} seconds after the stop. "
                        f"`sclsearch job status {study}{self.option}` shows when it has ended."
                    )
                time.sleep(0.5)
        return running and status == JobStatus.STOPPED

    @property
    def option(self) -> str:
        """Command-line option that names this cluster; empty for the default cluster."""
        return "" if self.cluster == CLUSTER else f" --cluster {self.cluster}"

    def _running(self, name: str, job: str) -> SclsearchError:
        return SclsearchError(
            f"{name}: {job} already runs it. Follow it with `sclsearch job logs "
            f"{name}{self.option}`, or end it with `sclsearch job stop {name}{self.option}`."
        )

    @contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Convert errors of the client to SclsearchError."""
        try:
            yield
        except BrokenPipeError:  # of the output, whose reader has enough
            raise
        except AuthenticationError as error:
            raise token_refused(f"--cluster {self.cluster}", error) from None
        except (OSError, RuntimeError, aiohttp.ClientError) as error:
            message = first_sentence(str(error))
            raise SclsearchError(
                f"--cluster {self.cluster}: does not answer: {message}. Start the cluster, or a "
                "tunnel to it. A job that was submitted goes on."
            ) from error


def _await_answer(cluster: str) -> None:
    # The client has no timeout.
    try:
        urlopen(f"{cluster}/api/version", timeout=ANSWER_SECONDS).close()
    except HTTPError as error:
        error.close()  # any HTTP status proves that the server answers


async def _write_all(log: AsyncIterator[str], write: Callable[[str], object]) -> None:
    async for lines in log:
        write(lines)


def _study_of(job: "JobDetails") -> str:
    found = _ATTEMPT.fullmatch(job.submission_id or "")
    return found["name"] if found else ""


def _number(job: "JobDetails") -> int:
    return int(str(job.submission_id).rpartition("-")[2])
