"""Drain this machine's Ray node when its cloud announces that it will take the machine away.

It runs beside `ray start` on spot instances. A drained node gets no new workers, and the seed runs
that it loses do not count as failures. Its workers continue until the machine is gone. It needs
only the standard library and the command `ray`.
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
"""Seconds from Google's notice, which has no time, to the end of the machine."""

Notice = Callable[[str], float | None]


def aws_notice(metadata: str) -> float | None:
    """Return the seconds until EC2 takes the machine away; None without a notice (IMDSv2)."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _ask(f"{metadata}/latest/api/token", lifetime, method="PUT")
    headers = {"X-aws-ec2-metadata-token": token or ""}
    action = _ask(f"{metadata}/latest/meta-data/spot/instance-action", headers)
    if action is None:
        return None
    end = datetime.fromisoformat(json.loads(action)["time"])
    return (end - datetime.now(UTC)).total_seconds()


def gce_notice(metadata: str) -> float | None:
    """Return the seconds until Compute Engine takes the machine away; None without a notice."""
    path = "/computeMetadata/v1/instance/preempted"
    preempted = _ask(f"{metadata}{path}", {"Metadata-Flavor": "Google"})
    return GCE_SECONDS if preempted == "TRUE" else None


NOTICES: Mapping[str, Notice] = MappingProxyType({"aws": aws_notice, "gce": gce_notice})


def drain(address: str, seconds: float) -> bool:
    """Drain this node within some seconds; return True if Ray accepted the request.

    Args:
        address: Address of the cluster's head, `host:port`.
        seconds: Seconds until the machine is gone.
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
    """Poll for a notice until there is one and Ray has accepted to drain the node."""
    while True:
        try:
            seconds = notice(metadata)
        except (OSError, ValueError, KeyError) as error:
            LOG.warning("%s: no answer to the request for a notice: %s", metadata, error)
            seconds = None
        if seconds is not None:
            LOG.warning("The cloud takes this machine away in %.0f seconds.", seconds)
            if drain(address, seconds):
                return
        time.sleep(every)


def main(arguments: Sequence[str]) -> None:
    """Parse the command line and poll for a notice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cloud", choices=sorted(NOTICES))
    parser.add_argument("--address", required=True, help="Address of the head, host:port.")
    parser.add_argument("--metadata", default=METADATA, help="URL of the metadata server.")
    parser.add_argument("--every", type=float, default=5.0, help="Seconds between two requests.")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s")
    watch(NOTICES[given.cloud], given.metadata, given.address, given.every)


def _ask(url: str, headers: Mapping[str, str], method: str = "GET") -> str | None:
    """Return the answer of the metadata server; None if it has nothing under that name."""
    # The server is on this machine: a proxy from the environment would ask that of its own machine.
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
