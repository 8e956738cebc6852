"""Plan to reproduce a published table: the study of each cell, or why it cannot be trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from sclsearch.errors import SclsearchError, lookup
from sclsearch.methods import find_method, method_class
from sclsearch.methods.base import Training, reads_paraphrases
from sclsearch.papers.tables import Cell, Settings, Table
from sclsearch.protocols.variants import SCALES
from sclsearch.spaces.load import PAPER, PRACTICAL, load_space, practical_file
from sclsearch.store.storage import storage_path
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.paraphrases import paraphrase_source

SCALED_CONFIGS = 2
# Training fields of both phases, if there are two.
SHARED = frozenset(f"{phase}{field.name}" for phase in ("", "post_") for field in fields(Training))
NO_TEMPERATURE = (
    "T does not apply to these paraphrases: the conditions that differ only in T have one score"
)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """Table cell and the study that reproduces it.

    Attributes:
        spec: Specification of the study; None if there is none.
        reason: Reason why the cell cannot be trained here; empty if it can.
        note: Remark about the plan for readers of the score; empty if there is none.
        first: Study that fine-tunes the encoder beforehand; None if the encoder is used unchanged.
    """

    cell: Cell
    spec: StudySpec | None
    options: RunOptions
    reason: str = ""
    note: str = ""
    first: "PlannedCell | None" = None


def plan_cells(
    table: Table,
    cells: Sequence[Cell],
    options: RunOptions,
    *,
    scale: str | None = None,
    model: str | None = None,
    paraphrases: Path | None = None,
) -> list[PlannedCell]:
    """Return the study of each cell.

    At the paper's scale a study has one configuration, the cell's settings. At a smaller scale it
    is a search over two learning rates, because those of large encoders do not suit a small one.
    All rows of a table search the same range, so none has better terms. Of the cell's settings, the
    fields of its method and those that distinguish it from others of its table are fixed; other
    fields of the search space have the values of its first published configuration.

    If paraphrases are added to the training rows, a file with another temperature than the cell's
    does not reproduce the cell. A file without a temperature, and EDA, give one score for every
    temperature.

    Args:
        table: The table.
        cells: Cells of the table.
        options: Run options; the table sets the rule and the number of configurations.
        scale: Name in `SCALES`; None is the paper's scale.
        model: Encoder that replaces the paper's, or the scale's.
        paraphrases: Paraphrase file, for methods or training rows that use one.

    Raises:
        SclsearchError: The scale is unknown, no cell uses the paraphrases, or the file has faults.
    """
    if scale is not None:
        lookup(SCALES, scale, "scale")
    if paraphrases and not any(map(_reads_paraphrases, cells)):
        raise SclsearchError(
            f"--paraphrases {paraphrases}: no selected cell reads paraphrases, by its method or "
            "among its training rows. Leave it out."
        )
    augmented = any(cell.block.augmentation for cell in cells)
    temperature = paraphrase_source(paraphrases).temperature if augmented else None

    def planned(cell: Cell) -> PlannedCell:
        reason = _reason(cell, options, temperature)
        if reason or cell.row.method is None or cell.column.task is None:
            return PlannedCell(cell, None, options, reason)
        spec = StudySpec(
            method=cell.row.method,
            task=cell.column.task,
            model=cell.model if model is None and scale is None else model,
            protocol="gunel-noisy" if cell.block.augmentation else table.protocol,
            scale=scale,
            train_size=cell.block.train_size,
            shots=cell.block.shots,
            space=PAPER if scale is None else PRACTICAL,
            settings=cell.settings if scale is None else _scaled_settings(table, cell),
            paraphrases=paraphrases if _reads_paraphrases(cell) else None,
            searched=scale is not None,
        )
        own = replace(options, configs=None if scale is None else SCALED_CONFIGS)
        rule = str(table.rule) if scale is None and table.rule else None
        return PlannedCell(
            cell,
            spec,
            replace(own, rule=rule),
            note=NO_TEMPERATURE if cell.block.augmentation and temperature is None else "",
            first=_first_fine_tuning(cell, spec, own),
        )

    return [planned(cell) for cell in cells]


def _reason(cell: Cell, options: RunOptions, temperature: float | None) -> str:
    """Return the reason why there is no study of a cell, or an empty text."""
    if not cell.trainable:
        return "a mean of others" if cell.row.method else "published only"
    augmentation = cell.block.augmentation
    if augmentation and temperature not in (None, augmentation.temperature):
        return (
            f"its paraphrases have T={augmentation.temperature:g}, those of the file "
            f"T={temperature:g}"
        )
    if cell.block.first_task and storage_path(options.storage).local is None:
        return "its encoder is kept in the storage, which must be a folder that all machines have"
    return ""


def _first_fine_tuning(cell: Cell, spec: StudySpec, options: RunOptions) -> PlannedCell | None:
    """Return the study that first fine-tunes the encoder, on a whole task by the same method."""
    task = cell.block.first_task
    if task is None:
        return None
    protocol = find_method(spec.method).kind.protocol
    first = replace(spec, task=task, protocol=protocol, train_size=None, shots=None)
    return PlannedCell(cell, first, options)


def _method_settings(cell: Cell) -> Settings:
    """Return the method's fields, without those that all methods share."""
    return {name: value for name, value in cell.settings.items() if name not in SHARED}


def _scaled_settings(table: Table, cell: Cell) -> Settings:
    """Return the settings of a cell's study at a smaller scale: all but the learning rate."""
    start = _start(str(cell.row.method))
    papers = {"head_lr_mult": 1.0} if "head_lr_mult" in start else {}
    return {**start, **papers, **_distinguishing_settings(table, cell)}


@cache
def _start(method: str) -> Settings:
    """Return the start of a method's practical space, without the learning rate."""
    return load_space(practical_file(method), method).published[0]


def _distinguishing_settings(table: Table, cell: Cell) -> Settings:
    """Return the fields of the method and the fields that distinguish similar cells."""
    similar = [other for other in table.cells if _similarity(cell) == _similarity(other)]
    shared = {
        name: cell.settings[name]
        for name in SHARED & cell.settings.keys()
        if any(cell.settings[name] != other.settings.get(name) for other in similar)
    }
    return {**_method_settings(cell), **shared}


def _similarity(cell: Cell) -> tuple[object, ...]:
    # Compare the fields, not the blocks: a block may differ by its batch size alone.
    condition = cell.block.train_size, cell.block.shots, cell.block.augmentation
    return cell.row.method, cell.column, condition, _method_settings(cell)


def _reads_paraphrases(cell: Cell) -> bool:
    if cell.row.method is None:
        return False
    augmented = cell.block.augmentation is not None
    return augmented or reads_paraphrases(method_class(cell.row.method)(), Training())


def distinct_studies(planned: Sequence[PlannedCell]) -> Iterator[PlannedCell]:
    """Yield one cell per study, preceded by the study that fine-tunes its encoder, if any.

    Two metrics of a task share one study; two tasks may share the fine-tuned encoder.
    """
    seen: list[tuple[StudySpec, StudySpec | None]] = []
    for cell in planned:
        for one in (cell.first, cell):
            if one is None or one.spec is None:
                continue
            study = one.spec, one.first.spec if one.first else None
            if study not in seen:
                seen.append(study)
                yield one
