"""Seed runs of the rows in `benchmarks/evidence/`: written from a storage, and read again."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from benchmarks.evidence.rows import FOLDER, ROWS, sides_of
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import confirmed_score
from sclsearch.reports.table import SEED_RUN_COLUMNS
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names

if TYPE_CHECKING:
    from sclsearch.reports.report import Report

NOTES = FOLDER / "notes.json"
"""Notes of the reports on each study's rows."""
NOT_EXPORTED = ("reported", "status")
SHORT = 12
"""Characters of the keys and of the hashes of rows in the files."""
NOTE_STARTS = ("test:", "validation:", "scaled:", "paraphrases:", "max_length")
OWN_COLUMNS = frozenset((*SEED_RUN_COLUMNS, "kind", "train_rows", "test_rows"))
Frames = Mapping[str, pd.DataFrame]


def export(study: str, storage: Path) -> None:
    """Write the seed runs of a study, of its confirmation and of their baselines; its notes too.

    Raises:
        SclsearchError: The search or its confirmation is unfinished.
    """
    import sclsearch

    search = sclsearch.select(study, storage=storage)
    confirmed = confirmed_score(search)
    fresh = None if confirmed is None else sclsearch.select(confirmed.study, storage=storage)
    if fresh is None or not fresh.baselines:
        raise SclsearchError(f"{study}: has no finished confirmation.")
    frames = [exported(search, "search"), exported(fresh, "confirm"), _baselines(fresh)]
    frame = pd.concat(frames, ignore_index=True).convert_dtypes()
    frame.to_csv(FOLDER / f"{study}.csv", index=False, lineterminator="\n")
    notes = stored_notes()
    notes[study] = [note for note in search.notes if note.startswith(NOTE_STARTS)]
    text = json.dumps(notes, indent=1, sort_keys=True, ensure_ascii=False)
    NOTES.write_text(f"{text}\n", encoding="utf-8")


def exported(report: "Report", kind: str) -> pd.DataFrame:
    """Return the seed runs of a study as they are stored in `benchmarks/evidence/`."""
    frame = report.frame()
    names = map(str, frame.columns)
    dropped = [one for one in names if one.startswith(("f1_", "seed_")) or one in NOT_EXPORTED]
    frame = frame.drop(columns=dropped)
    frame.insert(0, "kind", kind)
    frame["key"], frame["seconds"] = frame["key"].str[:SHORT], frame["seconds"].round(1)
    for use in ("train", "test"):
        frame[f"{use}_rows"] = [report.rows[n][use][:SHORT] for n in frame["replicate"]]
    return frame


def _baselines(report: "Report") -> pd.DataFrame:
    rows = [
        ("baseline", report.study, line.origin, seed.replicate, seed.validation, seed.test)
        for line in report.baselines
        for seed in line.seeds
    ]
    columns = ["kind", "study", "origin", "replicate", "validation", "test"]
    return pd.DataFrame(rows, columns=columns)


def export_all(model: str, storage: Path) -> None:
    """Write the files of all finished sides; print which are unfinished."""
    names = study_names(storage_folder(storage, make=False))
    for side in sides_of(ROWS):
        if side.study(model) in names:
            try:
                export(side.study(model), storage)
            except SclsearchError as error:
                print(f"Not recorded: {error}", file=sys.stderr)


def stored_notes() -> dict[str, list[str]]:
    """Return the notes on each study's rows, from the file `NOTES`."""
    found: dict[str, list[str]] = {}
    if NOTES.exists():
        found = json.loads(NOTES.read_text(encoding="utf-8"))
    return found


def stored(study: str) -> pd.DataFrame | None:
    """Return the seed runs of a study in `benchmarks/evidence/`; None if there are none."""
    path = FOLDER / f"{study}.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path, low_memory=False)
    setfit = FOLDER / f"setfit-{frame['task'][0]}-{frame['size'][0]:.0f}.csv"
    if not setfit.exists():
        return frame
    rows = pd.read_csv(setfit).drop(columns="seconds")
    confirm = of_kind(frame, "confirm")
    if rows["train_rows"].tolist() != confirm["train_rows"].tolist():
        raise SclsearchError(f"{setfit}: must have the training rows of {path}. Train it again.")
    return pd.concat([frame, rows], ignore_index=True)


def of_kind(frame: pd.DataFrame, kind: str, origin: str | None = None) -> pd.DataFrame:
    """Return the rows of a kind by replicate: `search` (the winner's), `confirm`, `baseline`."""
    found = frame[frame["kind"] == kind]
    if kind == "search":
        found = found[found["winner"] == True]  # noqa: E712 - the column has missing values
    if origin is not None:
        found = found[found["origin"] == origin]
    return found.sort_values("replicate")


def stored_frames(model: str) -> dict[str, pd.DataFrame]:
    """Return the stored seed runs of each side of the rows, by study."""
    found = {side.study(model): stored(side.study(model)) for side in sides_of(ROWS)}
    return {study: frame for study, frame in found.items() if frame is not None}


def searched(frame: pd.DataFrame) -> list[str]:
    """Return the names of the hyperparameters in which the configurations of a search differ."""
    search = frame[frame["kind"] == "search"]
    names = [name for name in map(str, frame.columns) if name not in OWN_COLUMNS]
    return [name for name in names if search[name].nunique(dropna=False) > 1]
