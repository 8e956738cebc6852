"""Studies of a storage, with the search settings and the progress of each."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich.filesize import decimal

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.reports.report import report
from sclsearch.store.cleanup import run_files
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names

SETTINGS = ("method", "task", "size", "model", "protocol", "seeds", "metric")


def studies(storage: Storage) -> list[dict[str, Any]]:
    """Return settings and progress of each study in a storage, sorted by name.

    `stored` and `failed` count seed runs. `best` and `winner` are score and number of the winner
    under the rule of the study's first run, which reads every seed run. `bytes` counts the study's
    files and its seed runs, shared ones too. `created` is in Unix seconds, and `faults` are
    messages about damaged files. A study without a readable record has a `fault` alone.
    """
    found, sizes = list[dict[str, Any]](), Counter[str]()
    for key, size in run_files(storage).values():
        sizes[key] += size
    for name in study_names(storage):
        store = StudyStore(storage, name)
        try:
            record = store.record()
            one = report(storage, name) if record else None
        except SclsearchError as error:
            found.append({"name": name, "fault": str(error)})
            continue
        if one is not None:
            winner, runs = one.winner, one.seed_runs
            progress = {
                "configurations": len(one.configurations),
                "stored": len(runs),
                "failed": sum(seed.failure is not None for seed in runs),
                "best": winner and winner.score,
                "winner": winner and winner.number,
                "bytes": sum(store.folder.files().values())
                + sum(sizes[key] for key in {seed.key for seed in runs}),
                "created": one.record.created,
                "faults": one.damaged,
            }
            own = {setting: getattr(one, setting) for setting in SETTINGS}
            found.append({"name": name, **own, **progress})
    return found


def in_words(study: Mapping[str, Any]) -> str:
    """Return settings and progress of a study as text, with a line for each damaged file."""
    if "fault" in study:
        return f"cannot be read: {study['fault']}"
    task, stored = study["task"], study["stored"]
    created = datetime.fromtimestamp(study["created"], tz=UTC).astimezone()
    size = f" ({study['size']})" if study["size"] else ""
    failed = "all" if study["failed"] == stored else study["failed"]
    best = f"winner: {study['metric']} {study['best'] or 0:.4f} (#{study['winner']})"
    parts = (
        f"{study['method']} on {task}{size}, {study['model']}, {study['protocol']}",
        f"{counted(study['configurations'], 'configuration')} x {counted(study['seeds'], 'seed')}, "
        f"{counted(stored, 'seed run')} stored",
        f"{failed} failed" if study["failed"] else "",
        "" if study["winner"] is None else best,
        decimal(study["bytes"]),
        f"{created:%Y-%m-%d}",
    )
    return "\n".join(("; ".join(filter(None, parts)), *map("damaged: {}".format, study["faults"])))
