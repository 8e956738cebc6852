"""Scores of winners on fresh seeds, in the studies that `confirm` has stored."""

from contextlib import suppress
from dataclasses import dataclass

from sclsearch.errors import SclsearchError
from sclsearch.protocols.variants import FRESH_REPLICATES
from sclsearch.reports.report import Report, finished_winner, report
from sclsearch.store.studies import StudyRecord, StudyStore, study_names


@dataclass(frozen=True, slots=True)
class ConfirmedScore:
    """Test score of a winner on fresh seeds, which did not choose it.

    Attributes:
        study: Name of the study that `confirm` trained.
        mean: Mean test score.
        std: Sample standard deviation; None for a single score.
        seeds: Number of fresh seeds.
        same_rows: True if they read the training rows of the seeds that chose the winner, as with
            `--splits`.
    """

    study: str
    mean: float
    std: float | None
    seeds: int
    same_rows: bool = False


def confirmed_score(chosen: Report) -> ConfirmedScore | None:
    """Return the winner's score in the `confirm` study with the most seeds; None without one."""
    return confirmed_score_and_notes(chosen)[0]


def confirmed_score_and_notes(chosen: Report) -> tuple[ConfirmedScore | None, list[str]]:
    """Return `confirmed_score` of a study, or notes on `confirm` studies that no longer count.

    A `confirm` study no longer counts if the continued search has another winner, or has trained
    the same seeds since.
    """
    record = StudyStore(chosen.storage, chosen.study).record()
    if record is None or record.repeats:
        return None, []
    own, scores, notes = finished_winner(chosen), list[ConfirmedScore](), list[str]()
    keys = {seed.key for seed in own.seeds}
    for name in study_names(chosen.storage):
        with suppress(SclsearchError):  # a damaged study
            other = StudyStore(chosen.storage, name).record()
            if other is None or not other.origin.get("fresh") or not _same_inputs(record, other):
                continue
            fresh = report(chosen.storage, name)
            winner = fresh.winner
            if not winner or not winner.plain:
                continue
            same = [one for one in chosen.configurations if one.fields == winner.fields]
            if winner.fields == own.fields and keys.isdisjoint(one.key for one in winner.seeds):
                count = len(winner.seeds) - winner.failed
                same_rows = share_rows(chosen, fresh)
                scores.append(ConfirmedScore(name, *winner.plain, count, same_rows))
            elif winner.fields == own.fields:
                notes.append(f"the seeds of {name} are not fresh: {chosen.study} has them too")
            elif same:
                configuration = f"#{same[0].number} of {chosen.study}"
                notes.append(f"the fresh seeds of {name} are of {configuration}, not of the winner")
    best = max(scores, key=lambda one: one.seeds, default=None)
    return best, [] if best else notes


def share_rows(chosen: Report, fresh: Report) -> bool:
    """Return True if new seeds train on subsets that the seeds of the search have, too."""
    before, now = ({rows["train"] for rows in one.rows} for one in (chosen, fresh))
    return len(before) > 1 and now <= before


def _same_inputs(study: StudyRecord, fresh: StudyRecord) -> bool:
    """Return True if both train one method on the same data, whatever the device."""
    own, its = (dict(one.training) for one in (study, fresh))
    if own.pop("numerics", "") != its.pop("numerics", ""):
        own["engine"] = its["engine"] = None  # devices have engine versions of their own
    same = all(study.identity[key] == fresh.identity[key] for key in ("task", "model", "size"))
    repeated = f"{study.identity['protocol']}, {FRESH_REPLICATES}"
    return own == its and same and str(fresh.identity["protocol"]).startswith(repeated)
