"""Commands that control jobs on a remote Ray cluster: `submit` and `job`."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sclsearch.errors import INTERRUPTED, SclsearchError, lookup
from sclsearch.study.resources import CLUSTER

if TYPE_CHECKING:
    from sclsearch.ray_backend.jobs import Jobs

Cluster = Annotated[
    str, typer.Option(help="URL of the Ray dashboard of the cluster, or of a tunnel to it.")
]
Action = Literal["status", "logs", "stop"]


def submit(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(help="Command to run, with its options. Example: tune --method … --study …"),
    ],
    cluster: Cluster = CLUSTER,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return without following the log.")
    ] = False,
) -> None:
    """Run a command as a job on a Ray cluster and follow its log; Ctrl-C leaves the job running."""
    options = _options(context, command)
    name = _job_name(command[0], options)
    _check_travels(options)
    from sclsearch.ray_backend.jobs import Jobs

    jobs = Jobs(cluster)
    job = jobs.submit(name, ["sclsearch", *command, "--address", "auto"])
    sys.stderr.write(f"{job} runs on {jobs.cluster}.\n")
    if no_wait:
        _tell_ways(jobs, name)
    else:
        _follow(jobs, name, job)


def job(
    action: Annotated[
        Action, typer.Argument(help="Show the status, follow the log, or stop the job.")
    ],
    study: Annotated[str, typer.Argument(help="Name of the submitted study.")],
    cluster: Cluster = CLUSTER,
) -> None:
    """Show the status of a submitted job, follow its log, or stop it."""
    from sclsearch.ray_backend.jobs import Jobs

    jobs = Jobs(cluster)
    latest = jobs.latest(study)
    name = str(latest.submission_id)
    match action:
        case "status":
            sys.stdout.write(f"{name}\t{latest.status.value.lower()}\t{latest.entrypoint}\n")
        case "logs":
            _follow(jobs, study, name)
        case "stop":
            ended = "was stopped" if jobs.stop(name) else "had already ended"
            sys.stderr.write(f"{name} {ended}. Submit the same command again to resume.\n")


def _options(context: typer.Context, command: list[str]) -> dict[str, Any]:
    """Return the parsed options of the command to submit; report errors before submission."""
    group: Any = context.parent and context.parent.command
    able = {
        name: found
        for name, found in group.commands.items()
        if any(parameter.name == "address" for parameter in found.params)
    }
    found = lookup(able, command[0], "command for a cluster")
    with found.make_context(command[0], command[1:], parent=context.parent) as inner:
        return dict(inner.params)


def _job_name(command: str, options: Mapping[str, Any]) -> str:
    name = options.get("study") or options.get("table")
    if name is None:
        raise SclsearchError(
            f"{command}: --study is missing. Pass a name: the job gets it, and the same "
            "command resumes the study."
        )
    return str(name).replace("/", "-")


def _check_travels(options: Mapping[str, Any]) -> None:
    """Raise SclsearchError for relative paths, an address, or a password in the tracking URI.

    The cluster cannot find relative paths, and its dashboard shows the command to others.
    """
    from sclsearch.tracking.server import masked

    faults = [
        f"{option} {value}: is a relative path, and files do not travel with a job. Put it into "
        "the shared folder of the cluster and pass the absolute path."
        for option, value in _places(options)
        if not Path(value).is_absolute() and not re.match(r"[a-z][a-z0-9]+:/", value)
    ]
    if options.get("address") is not None:
        faults.append("--address: a job runs inside its cluster. Leave it out.")
    tracking = options.get("tracking") or ""
    if masked(tracking) != tracking:
        faults.append(
            "--tracking: contains a password, and the dashboard shows a job's command. Set "
            "MLFLOW_TRACKING_URI, or MLFLOW_TRACKING_USERNAME and _PASSWORD, on the cluster."
        )
    if faults:
        raise SclsearchError("\n".join(faults))


def _places(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from sclsearch.tasks import is_own
    from sclsearch.tasks.custom import HUB_PREFIX

    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, Path) or (name in {"storage", "space"} and value):
            yield option, str(value)
    task = str(options.get("task") or "")
    if (options.get("text") or is_own(task)) and not task.startswith(HUB_PREFIX):
        yield "--task", task
    for method in str(options.get("method") or "").split(","):
        if file := method.rpartition(":")[0]:
            yield "--method", file
    model = str(options.get("model") or "")
    if model.startswith((".", "~")) or (model and Path(model).is_dir()):
        yield "--model", model
    if (options.get("tracking") or "").startswith("sqlite:///"):
        yield "--tracking", options["tracking"].removeprefix("sqlite:///")


def _follow(jobs: "Jobs", name: str, job: str) -> None:
    write: Callable[[str], object] = sys.stdout.write
    try:
        code = jobs.follow(job, lambda lines: (write(lines), sys.stdout.flush()))
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{job} goes on.\n")
        _tell_ways(jobs, name)
        sys.exit(INTERRUPTED)
    sys.exit(code)


def _tell_ways(jobs: "Jobs", name: str) -> None:
    sys.stderr.writelines(
        f"sclsearch job {action} {name}{jobs.option}\n" for action in ("status", "logs", "stop")
    )
