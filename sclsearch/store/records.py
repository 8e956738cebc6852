"""Stored records of a study, the keys of its seed runs, and messages for changed records."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sclsearch.canonical import canonical, digest, identity_of

_DIGEST = re.compile(r"[0-9a-f]{64}")
# Hashed field: its name in messages, and the key of its path in the record's `origin`.
_CONTENTS = {
    "data": ("rows", "source"),
    "train": ("training rows", "source"),
    "validation": ("validation rows", "source"),
    "test": ("test rows", "source"),
    "unlabeled": ("unlabeled rows", "source"),
    "unlabeled_digest": ("texts without label", "source"),
    "weights": ("weights", "model"),
    "method_file": ("contents of the method's file", "method"),
    "paraphrases": ("paraphrases", "paraphrases"),
}


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """Stored description of a study.

    Attributes:
        name: Name of the study.
        identity: Settings that must stay the same when the study resumes.
        training: Identity fields that all seed runs of the study share. They must stay the same
            too.
        origin: Data for running and reporting that may differ between machines, such as the paths
            of data and model.
        open_configurations: W, the highest number of unfinished configurations at a time, without
            configurations that a race has paused.
        created: Creation time, Unix seconds.
    """

    name: str
    identity: Mapping[str, Any]
    training: Mapping[str, Any]
    origin: Mapping[str, Any]
    open_configurations: int
    created: float

    @property
    def repeats(self) -> bool:
        """True if the study repeats the winner of another study."""
        return bool(self.origin.get("fresh"))

    @property
    def mlflow_name(self) -> str:
        """Name in MLflow: the study's name and a digest that makes it unique."""
        return f"{self.name}@{digest([self.identity, self.training, self.created])[:12]}"


@dataclass(frozen=True, slots=True)
class ConfigurationRecord:
    """Stored configuration: one point of the search space.

    Attributes:
        number: Number within the study, from 0.
        values: Values of the space's parameters.
        fields: All fields of the method and of `Training`.
        origin: Origin of the values: `published`; `start` for a first configuration that differs
            from the published one; `sampled`; or `given`.
    """

    number: int
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    origin: str


@dataclass(frozen=True, slots=True)
class ReplicateRecord:
    """Stored replicate: one repetition of the protocol, with its data splits and seeds.

    Attributes:
        number: Number of the replicate, r, from 0.
        rows: SHA-256 of its training, validation and test rows and of its other input data.
        seeds: Random seeds by purpose.
        notes: Notes about the split for readers of the scores.
    """

    number: int
    rows: Mapping[str, str]
    seeds: Mapping[str, int]
    notes: tuple[str, ...]


def uneven_seeds(replicates: Sequence[ReplicateRecord]) -> list[str]:
    """Return a note if some training subsets have more replicates than others."""
    counts = Counter(replicate.rows["train"] for replicate in replicates)
    if len({*counts.values()}) < 2:
        return []
    return [
        f"seeds: {len(replicates)} on {len(counts)} training sets, and some have more than others: "
        "a mean over seeds gives these more weight, a comparison of two studies does not"
    ]


def seed_run_identity(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> dict[str, Any]:
    """Return the identity of a seed run; see `identity_of`."""
    return identity_of(
        study.training,
        rows=replicate.rows,
        fields=configuration.fields,
        seeds=replicate.seeds,
    )


def seed_run_key(
    study: StudyRecord, configuration: ConfigurationRecord, replicate: ReplicateRecord
) -> str:
    """Return the key of a seed run: the SHA-256 of its identity."""
    return digest(seed_run_identity(study, configuration, replicate))


def difference(field: str, was: object, now: object, requested: StudyRecord) -> str:
    """Return the error message for a field that differs between stored and requested study.

    The message shows the path of hashed contents instead of their digests.
    """
    was, now = _apart(was, now)
    while isinstance(was, Mapping) and isinstance(now, Mapping) and len(was) == 1:
        ((field, was),), (now,) = was.items(), now.values()
    if not any(_DIGEST.fullmatch(str(value)) for value in (was, now)):
        return (
            f"{field} must stay {_short(was)}, got {_short(now)}. "
            f"Give another --study, or the same {field} as before."
        )
    contents = field.partition(" of replicate ")[0]
    name, origin = _CONTENTS.get(contents, (contents, "source"))
    name = field.replace(contents, name, 1)
    path = f" ({requested.origin[origin]})" if requested.origin.get(origin) else ""
    change = "changed"
    if was is None:
        change = "were added"
    elif now is None:
        change, path = "are missing", ""
    return f"{name}{path} {change} since the study began. Give another --study, or restore them."


def _apart(was: object, now: object) -> tuple[object, object]:
    """Return both values without the keys on which they agree; recurse into nested mappings."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return was, now
    both = {**was, **now}
    names = [name for name in both if canonical(was.get(name)) != canonical(now.get(name))]
    splits = {name: _apart(was.get(name), now.get(name)) for name in names}
    before, after = ({name: part[side] for name, part in splits.items()} for side in (0, 1))
    return before, after


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
