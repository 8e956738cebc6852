"""Specification of a study that trains the winner of another study."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.reports.report import Report, finished_winner
from sclsearch.store.studies import existing_study
from sclsearch.study.restore import restore_path, restore_study_spec, with_changes
from sclsearch.study.spec import StudySpec

if TYPE_CHECKING:
    from sclsearch.methods.base import Method


def winner_spec(
    found: Report, changes: Mapping[str, Any], method: "str | type[Method] | None" = None
) -> tuple[StudySpec, Path | None]:
    """Return the spec of a report's winner with changes, and the data folder of its study.

    The folder is None if the changes have another task.

    Args:
        found: The report.
        changes: Fields of `StudySpec` to replace; `settings` has only the settings to replace.
        method: `FILE.py:CLASS` or a class, required if the study's method is in a file.

    Raises:
        SclsearchError: There is no winner, or the method has changed.
    """
    winner = finished_winner(found)
    _, record = existing_study(found.storage, found.study)
    spec = with_changes(restore_study_spec(record, winner.fields, method), winner.values, changes)
    return spec, None if "task" in changes else restore_path(record.origin.get("data_dir"))
