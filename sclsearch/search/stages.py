"""Stages that several configurations share: what they leave stays in the storage for a while."""

import json
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from sclsearch.canonical import canonical, digest
from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Parts
from sclsearch.search.environment import environment
from sclsearch.search.study import Study
from sclsearch.spaces.parameters import Parameter, Range
from sclsearch.store.studies import StudyStore
from sclsearch.training.shared import StageEnd, end_identity
from sclsearch.training.weights import save_tensors

MOST = 50
"""Ends of stages that a study keeps at a time, each as large as its encoder."""

_PLACE = frozenset({"host", "pid"})
_LOG = logging.getLogger(__name__)


class KeptStages:
    """The shelf of a study: one file for each end of a stage, until the study is complete.

    It saves time and holds nothing that cannot be trained again: where the storage fails, a stage
    is trained.

    Args:
        store: The study's store.
        threads: Torch threads of a seed run.
    """

    def __init__(self, store: StudyStore, threads: int) -> None:
        self.store = store
        found = environment(threads)
        # Another kind of machine would train it to other last digits.
        self.machine = {name: found[name] for name in found.keys() - _PLACE}
        self.machine["capability"] = torch.backends.cpu.get_cpu_capability()

    def take(self, identity: Mapping[str, object]) -> StageEnd | None:
        """Returns what is kept under an identity, or None."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        key = self._key(identity)
        try:
            content = self.store.read_stage(key)
            return None if content is None else StageEnd(load(content), *_told(content))
        except (OSError, ValueError, KeyError, SclsearchError, SafetensorError) as error:
            _LOG.warning("stage %s: it is trained, since it cannot be read: %s", key[:12], error)
            return None

    def keep(self, identity: Mapping[str, object], end: StageEnd) -> None:
        """Keeps the end of a stage, unless there are many."""
        key = self._key(identity)
        try:
            if len(self.store.kept_stages()) < MOST:
                self.store.keep_stage(key, partial(_save, end=end))
        except (OSError, SclsearchError) as error:
            _LOG.warning("stage %s: it cannot be kept: %s", key[:12], error)

    def _key(self, identity: Mapping[str, object]) -> str:
        return digest({**identity, "machine": self.machine})


def shares_stages(study: Study, parts: Parts) -> bool:
    """Returns whether configurations of a search will share stages.

    Some searched parameter must change nothing in the first stage, and every one that does must
    have few values: two draws from a range are hardly ever the same.

    Args:
        study: The study.
        parts: Rows of one of its replicates.
    """
    apart = False
    base = {name: _two_of(parameter)[0] for name, parameter in study.space.parameters.items()}
    for name, parameter in study.space.parameters.items():
        values = [{**base, name: value} for value in _two_of(parameter)]
        jobs = [study.job(value, 0, parts) for value in values]
        identities = [end_identity(job, job.turns[0]) for job in jobs]
        if None in identities:
            return False
        if canonical(identities[0]) == canonical(identities[-1]):
            apart |= len(values) > 1
        elif not parameter.listed():
            return False
    return apart


def _two_of(parameter: Parameter) -> tuple[object, ...]:
    if isinstance(parameter, Range) and not parameter.listed():
        return parameter.low, parameter.high
    return parameter.listed()[:2]


def _save(file: Path, end: StageEnd) -> None:
    told = {"notes": json.dumps(end.notes), "seconds": json.dumps(end.seconds)}
    save_tensors(file, end.weights, told)


def _told(content: bytes) -> tuple[list[dict[str, object]], float]:
    """Returns the losses and the seconds that stand in a file's header, after its length."""
    end = 8 + int.from_bytes(content[:8], "little")
    told = json.loads(content[8:end])["__metadata__"]
    return json.loads(told["notes"]), json.loads(told["seconds"])
