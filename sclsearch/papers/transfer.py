"""Encoders that another task fine-tunes first; each is exported once to `encoders/`."""

from dataclasses import replace
from pathlib import Path

from sclsearch.papers.plan import PlannedCell
from sclsearch.reports.export import Card, card_of, export
from sclsearch.reports.report import Report, report
from sclsearch.search.plan import plan
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import study_names
from sclsearch.study.spec import StudySpec


def on_exported(one: PlannedCell, found: Report) -> PlannedCell:
    """Return the cell with the exported encoder that was fine-tuned first, and a note about it.

    Args:
        one: The cell.
        found: Report of the first fine-tuning; its winner is exported unless this has been done.

    Raises:
        SclsearchError: It has no winner, or the winner's weights were not kept.
    """
    card = card_of(found)
    folder = _folder(one, card)
    if not folder.exists():
        export(found, storage_folder(one.options.storage), folder)
    note = (
        f"encoder first fine-tuned on {card.task} by {card.method}: seed {card.replicate}, the "
        f"best of {card.seeds} by validation, {card.metric} {card.validation:.4f}"
    )
    return replace(one, spec=_on(one, folder), note=note, first=None)


def known_what(one: PlannedCell) -> StudySpec | None:
    """Return the specification of a cell's study, or None while its encoder is missing.

    Nothing is trained.

    Raises:
        SclsearchError: The first fine-tuning cannot be planned, or all of its seed runs failed.
    """
    first = one.first
    if first is None or first.spec is None:
        return one.spec
    found = plan(first.spec, first.options)
    storage = storage_folder(first.options.storage, make=False)
    if found.stored < found.seed_runs or found.study not in study_names(storage):
        return None
    rule = parse_rule(found.rule)
    card = card_of(report(storage, found.study, rule, found.seeds, found.configurations))
    folder = _folder(one, card)
    return _on(one, folder) if folder.exists() else None


def _folder(one: PlannedCell, card: Card) -> Path:
    # In the storage, so that the workers of a cluster can read it; one folder per plan.
    storage = storage_folder(one.options.storage, make=False)
    return Path(storage) / "encoders" / f"{card.task}-{card.key[:12]}"


def _on(one: PlannedCell, folder: Path) -> StudySpec | None:
    return one.spec and replace(one.spec, model=str(folder))
