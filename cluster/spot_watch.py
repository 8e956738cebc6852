"""Drains this machine's Ray node when its cloud announces that it takes the machine away.

Runs beside `ray start` on machines at a spot price. A drained node gets no new workers, and seed
runs that it loses do not count as failures; a worker that is there goes on until the machine is
gone. Needs the standard library and the command `ray` alone.
"""

import argparse
import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

LOG = logging.getLogger("spot_watch")
METADATA = "http://169.254.169.254"
GCE_SECONDS = 30.0
"""What is left after Google's notice, which has no time in it."""

Notice = Callable[[str], float | None]


def aws_notice(metadata: str) -> float | None:
    """Returns the seconds until EC2 takes the machine, None while it keeps it (IMDSv2).

    Args:
        metadata: URL of the metadata server.
    """
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _ask(f"{metadata}/latest/api/token", lifetime, method="PUT")
    headers = {"X-aws-ec2-metadata-token": token or ""}
    action = _ask(f"{metadata}/latest/meta-data/spot/instance-action", headers)
    if action is None:
        return None
    end = datetime.fromisoformat(json.loads(action)["time"])
    return (end - datetime.now(UTC)).total_seconds()


def gce_notice(metadata: str) -> float | None:
    """Returns the seconds until Compute Engine takes the machine, None while it keeps it.

    Args:
        metadata: URL of the metadata server.
    """
    path = "/computeMetadata/v1/instance/preempted"
    said = _ask(f"{metadata}{path}", {"Metadata-Flavor": "Google"})
    return GCE_SECONDS if said == "TRUE" else None


NOTICES: Mapping[str, Notice] = MappingProxyType({"aws": aws_notice, "gce": gce_notice})


def drain(address: str, seconds: float) -> bool:
    """Tells Ray that this node goes; returns whether Ray took it.

    Args:
        address: Of the cluster's head, `host:port`.
        seconds: What is left.
    """
    command = ["ray", "drain-node", "--address", address]
    command += ["--reason", "DRAIN_NODE_REASON_PREEMPTION"]
    command += ["--reason-message", "The cloud takes the machine away."]
    command += ["--deadline-remaining-seconds", str(max(int(seconds), 0))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        LOG.warning("ray drain-node: %s", done.stderr.strip().rpartition("\n")[2])
    return done.returncode == 0


def watch(notice: Notice, metadata: str, address: str, every: float) -> None:
    """Asks for a notice until there is one and Ray has taken it."""
    while True:
        try:
            seconds = notice(metadata)
        except (OSError, ValueError, KeyError) as error:
            LOG.warning("%s: it must tell of a notice, but: %s", metadata, error)
            seconds = None
        if seconds is not None:
            LOG.warning("The machine goes in %.0f seconds.", seconds)
            if drain(address, seconds):
                return
        time.sleep(every)


def main(arguments: Sequence[str]) -> None:
    """Reads the command line and watches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cloud", choices=sorted(NOTICES))
    parser.add_argument("--address", required=True, help="Of the cluster's head, host:port.")
    parser.add_argument("--metadata", default=METADATA, help="URL of the metadata server.")
    parser.add_argument("--every", type=float, default=5.0, help="Seconds between questions.")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s")
    watch(NOTICES[given.cloud], given.metadata, given.address, given.every)


def _ask(url: str, headers: Mapping[str, str], method: str = "GET") -> str | None:
    """Returns what the metadata server says, None where it knows nothing of that name."""
    # The server is on the machine: a proxy of the environment would ask another one's.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(url, headers=dict(headers), method=method), timeout=5) as answer:
            return str(answer.read().decode())
    except HTTPError as error:
        if error.code == 404:
            return None
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
