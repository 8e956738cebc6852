"""Check, before the first seed run, that every cluster node can train a study's seed runs."""

import uuid
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.nodes import NodeRequirements, node_errors, node_requirements
from sclsearch.store.objects import create, read
from sclsearch.store.storage import StoragePath

if TYPE_CHECKING:
    from sclsearch.study.prepared import PreparedStudy

ANSWER_SECONDS = 120.0


def check_nodes(prepared: "PreparedStudy") -> None:
    """Check that every node can use the storage and has the same model and versions.

    Nodes that join later are not checked here; their seed runs check them.

    Raises:
        SclsearchError: A node does not meet the requirements; the error names every such node.
    """
    this = f"preflight-{uuid.uuid4().hex}"
    folder = prepared.store.folder
    mark = folder / f"{this}.json"
    nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
    answers = {one: folder / f"{this}-{one}.json" for one in nodes}
    create(mark, {})
    try:
        needs = node_requirements(prepared, mark)
        asked = {one: _ask(one, needs, answers[one], _called(node)) for one, node in nodes.items()}
        ray.wait([*asked.values()], num_returns=len(asked), timeout=ANSWER_SECONDS)
        faults = {
            one: _faults(needs, asked[one], answers[one], _called(nodes[one])) for one in asked
        }
    finally:
        for path in (mark, *answers.values()):
            path.remove()
    # A node that has left the cluster needs no check.
    there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    errors = [fault for one, found in faults.items() if one in there for fault in found]
    if errors:
        raise SclsearchError("\n".join(errors))


def _ask(node: str, needs: NodeRequirements, answer: StoragePath, called: str) -> Any:
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(node_errors)
    return task.remote(needs, answer, called)


def _faults(needs: NodeRequirements, asked: Any, answer: StoragePath, called: str) -> list[str]:
    try:
        found: list[str] = ray.get(asked, timeout=0)
    except RayError as error:
        message = str(error).strip().splitlines()[-1].rstrip(".")
        return [
            f"{called}: did not run sclsearch within {ANSWER_SECONDS:g} seconds: {message}. Start "
            "all nodes from one image."
        ]
    if not found and read(answer) is None:
        return [
            f"--storage {needs.storage}: the driver does not see what {called} wrote there. Give "
            "a folder that all nodes share, or s3://BUCKET/FOLDER."
        ]
    return found


def _called(node: dict[str, Any]) -> str:
    return f"node {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
