"""Seed runs of the claims in `benchmarks/evidence/`: written from a storage, and read again."""

import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

import sclsearch
from benchmarks.evidence.claims import CLAIMS, FOLDER, sides_of
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import confirmed_score
from sclsearch.selection.significance import Comparison, compare

SHORT = 12
"""Characters of the keys and of the hashes of rows in the files."""
SAME = ["replicate", "train_rows", "test_rows"]
"""Columns that both sides of a claim have in common."""
Frames = Mapping[str, pd.DataFrame]


def export(study: str, storage: Path) -> None:
    """Write the seed runs of a finished search, of its confirmation and of their baselines."""
    search = sclsearch.select(study, storage=storage)
    confirmed = confirmed_score(search)
    fresh = None if confirmed is None else sclsearch.select(confirmed.study, storage=storage)
    if fresh is None or not fresh.baselines:
        raise SclsearchError(f"{study}: has no finished confirmation.")
    rows = [
        ("baseline", fresh.study, line.origin, seed.replicate, seed.validation, seed.test)
        for line in fresh.baselines
        for seed in line.seeds
    ]
    columns = ["kind", "study", "origin", "replicate", "validation", "test"]
    baselines = pd.DataFrame(rows, columns=columns)
    frames = [_seed_runs(search, "search"), _seed_runs(fresh, "confirm"), baselines]
    frame = pd.concat(frames, ignore_index=True).convert_dtypes()
    frame.to_csv(FOLDER / f"{study}.csv", index=False, lineterminator="\n")


def _seed_runs(report: sclsearch.Report, kind: str) -> pd.DataFrame:
    frame = report.frame().drop(columns=["reported", "status"])
    frame = frame.loc[:, ~frame.columns.str.startswith(("f1_", "seed_"))]
    frame.insert(0, "kind", kind)
    frame["key"], frame["seconds"] = frame["key"].str[:SHORT], frame["seconds"].round(1)
    for use in ("train", "test"):
        frame[f"{use}_rows"] = [report.rows[n][use][:SHORT] for n in frame["replicate"]]
    return frame


def stored_frames() -> dict[str, pd.DataFrame]:
    """Return the stored seed runs of each side of the claims, by study."""
    studies = [side.study for side in sides_of(CLAIMS)]
    return {one: _stored(one) for one in studies if (FOLDER / f"{one}.csv").exists()}


def _stored(study: str) -> pd.DataFrame:
    frame = pd.read_csv(FOLDER / f"{study}.csv", low_memory=False)
    setfit = FOLDER / f"setfit-{frame['task'][0]}-{frame['size'][0]:.0f}.csv"
    if not setfit.exists():
        return frame
    rows = pd.read_csv(setfit)
    if rows["train_rows"].tolist() != of_kind(frame, "confirm")["train_rows"].tolist():
        raise SclsearchError(f"{setfit}: must have the training rows of {study}. Train it again.")
    return pd.concat([frame, rows], ignore_index=True)


def of_kind(frame: pd.DataFrame, kind: str, origin: str | None = None) -> pd.DataFrame:
    """Return the rows of a kind by replicate: `search` (the winner's), `confirm`, `baseline`."""
    found = frame[frame["kind"] == kind]
    if kind == "search":
        found = found[found["winner"].astype(bool)]
    if origin is not None:
        found = found[found["origin"] == origin]
    return found.sort_values("replicate")


def scores(frame: pd.DataFrame, split: str = "test") -> list[float | None]:
    """Return the scores of a frame; None for a failed seed run."""
    return [None if math.isnan(one) else one for one in frame[split].tolist()]


def paired(better: pd.DataFrame, reference: pd.DataFrame, kind: str = "confirm") -> Comparison:
    """Return the paired comparison of two winners on their fresh seeds, or on those of the search.

    Both must have the same seeds, training rows and test rows.
    """
    own, its = of_kind(better, kind), of_kind(reference, kind)
    if own[SAME].to_numpy().tolist() != its[SAME].to_numpy().tolist():
        raise SclsearchError(
            f"{better['study'][0]} and {reference['study'][0]}: must have the same seeds and rows. "
            "Train both with benchmarks/evidence.sh."
        )
    return compare(scores(own), scores(its), own["train_rows"].tolist())
