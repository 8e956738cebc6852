"""Comparison of a winner with that of cross-entropy alone, if the storage has its study."""

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.reports.comparison import (
    WINNERS,
    StudyComparison,
    compare_studies,
    trained_seed_runs,
)
from sclsearch.reports.report import Report, report
from sclsearch.reports.terminal import with_spread
from sclsearch.store.records import StudyRecord
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore, study_names

BASELINE = "ce"


def baseline_comparison(found: Report, study: StudyRecord, storage: Storage) -> str:
    """Return a paragraph that compares a winner with that of cross-entropy alone.

    The storage may have a finished study of `ce` with the same task, training size, model, protocol
    and test rows.
    """
    if found.method == BASELINE:
        return ""
    compared = [
        one for name in study_names(storage) if (one := _compared(found, study, storage, name))
    ]
    if not compared:
        return (
            f"The storage has no finished study of `{BASELINE}` (cross-entropy alone) for this "
            "task, size, model and protocol to compare with."
        )
    return _paragraph(max(compared, key=lambda one: len(trained_seed_runs(one.reports[0]))))


def _compared(
    found: Report, study: StudyRecord, storage: Storage, name: str
) -> StudyComparison | None:
    """Return the comparison of a study's winner with ours; None if the study is no baseline."""
    try:
        record = StudyStore(storage, name).record()
        if record is None or record.training["method"] != BASELINE or record.repeats:
            return None
        same = ("task", "size", "model", "protocol")
        if any(record.identity[key] != study.identity[key] for key in same):
            return None
        return compare_studies([report(storage, name), found])
    except SclsearchError:  # unfinished, damaged, or of other rows
        return None


def _paragraph(compared: StudyComparison) -> str:
    base, own = compared.studies
    found = own.comparison
    assert found is not None
    interval = ""
    if found.interval is not None:
        low, high = (f"{100 * bound:+.1f}" for bound in found.interval)
        interval = f" (95 % interval {low} to {high})"
    notes = "".join(f" {note}." for note in compared.notes)
    return (
        f"Against `{base.method}` (study `{base.study}`, test "
        f"{with_spread(base.test_mean, base.test_std)}): {100 * found.difference:+.1f} points"
        f"{interval} over {counted(found.n, 'paired seed')}, p = {found.p:.3f} by Wilcoxon's "
        f"signed ranks.{notes} {WINNERS}"
    )
