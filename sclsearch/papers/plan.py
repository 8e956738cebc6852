"""Plan of a table's reproduction: the study of each cell, or the reason why there is none."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from sclsearch.errors import SclsearchError, lookup
from sclsearch.methods import find_method, method_class
from sclsearch.methods.base import Training, reads_paraphrases
from sclsearch.papers.base import Cell, Settings, Table
from sclsearch.protocols import PROTOCOLS, gunel
from sclsearch.protocols.base import Protocol
from sclsearch.protocols.scale import SCALES
from sclsearch.store.storage import storage_path
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks.paraphrases import paraphrase_source

SCALED_CONFIGS = 2
# Training fields of both phases, if there are two.
SHARED = frozenset(f"{phase}{field.name}" for phase in ("", "post_") for field in fields(Training))
NO_TEMPERATURE = (
    "T does not apply to these paraphrases: the conditions that differ in it are one figure"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Options for the reproduction of a table.

    Attributes:
        options: Run options; the table sets the rule and the number of configurations.
        scale: Name in `SCALES`; None is the paper's scale.
        model: Encoder that replaces the paper's, or the scale's.
        paraphrases: Paraphrase file, for methods or training rows that use one.
    """

    options: RunOptions
    scale: str | None = None
    model: str | None = None
    paraphrases: Path | None = None


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """Table cell and the study that reproduces it.

    Attributes:
        cell: The published cell.
        spec: Specification of the study; None if there is none.
        options: Run options.
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


def plan_cells(table: Table, cells: Sequence[Cell], wishes: Wishes) -> list[PlannedCell]:
    """Return the study of each cell.

    At the paper's scale a study has one configuration, the cell's settings. At a smaller scale it
    is a search over two configurations, the first being the published one of the space. Learning
    rates and batch sizes of large encoders do not suit a small encoder. Therefore only fields of
    the method, and fields that distinguish the cell from others of its table, are fixed.

    If paraphrases are added to the training rows, a file with another temperature than the cell's
    does not reproduce the cell. A file without a temperature, and EDA, give one score for every
    temperature.

    Raises:
        SclsearchError: The scale is unknown, no cell uses the paraphrases, or the file has faults.
    """
    if wishes.scale is not None:
        lookup(SCALES, wishes.scale, "scale")
    if wishes.paraphrases and not any(map(_reads_paraphrases, cells)):
        raise SclsearchError(
            f"--paraphrases {wishes.paraphrases}: it must come with a cell that reads paraphrases, "
            "by its method or among its training rows, but there is none. Leave it out."
        )
    joined = any(cell.block.augmentation for cell in cells)
    temperature = paraphrase_source(wishes.paraphrases).temperature if joined else None
    return [_planned(table, cell, wishes, temperature) for cell in cells]


def _planned(table: Table, cell: Cell, wishes: Wishes, temperature: float | None) -> PlannedCell:
    scaled = wishes.scale is not None
    reason = _reason(cell) or _other_temperature(cell, temperature) or _no_folder(cell, wishes)
    if reason or cell.row.method is None or cell.column.task is None:
        return PlannedCell(cell, None, wishes.options, reason or "published only")
    spec = StudySpec(
        method=cell.row.method,
        task=cell.column.task,
        model=cell.model if wishes.model is None and not scaled else wishes.model,
        protocol=_protocol(table, cell).name,
        scale=wishes.scale,
        train_size=cell.block.train_size,
        shots=cell.block.shots,
        settings=_making(table, cell) if scaled else cell.settings,
        paraphrases=wishes.paraphrases if _reads_paraphrases(cell) else None,
        searched=scaled,
    )
    options = replace(wishes.options, configs=SCALED_CONFIGS if scaled else None)
    rule = None if scaled or table.rule is None else str(table.rule)
    note = NO_TEMPERATURE if cell.block.augmentation and temperature is None else ""
    first = _first(cell, spec, options)
    return PlannedCell(cell, spec, replace(options, rule=rule), note=note, first=first)


def _protocol(table: Table, cell: Cell) -> Protocol:
    return gunel.NOISY if cell.block.augmentation else PROTOCOLS[table.protocol]


def _other_temperature(cell: Cell, temperature: float | None) -> str:
    wanted = cell.block.augmentation
    if wanted is None or temperature in (None, wanted.temperature):
        return ""
    return f"its paraphrases have T={wanted.temperature:g}, those of the file T={temperature:g}"


def _no_folder(cell: Cell, wishes: Wishes) -> str:
    if cell.block.first_task is None or isinstance(storage_path(wishes.options.storage), Path):
        return ""
    return "its encoder is kept in the storage, which must be a folder that all machines have"


def _first(cell: Cell, spec: StudySpec, options: RunOptions) -> PlannedCell | None:
    """Return the study that first fine-tunes the encoder, on a whole task by the same method."""
    if cell.block.first_task is None:
        return None
    protocol = find_method(spec.method).kind.protocol
    task = cell.block.first_task
    before = replace(spec, task=task, protocol=protocol, train_size=None, shots=None)
    return PlannedCell(cell, before, options)


def _own(cell: Cell) -> Settings:
    """Return the method's fields, without those that all methods share."""
    return {name: value for name, value in cell.settings.items() if name not in SHARED}


def _making(table: Table, cell: Cell) -> Settings:
    """Return the fields of the method and the fields that distinguish similar cells."""
    alike = [other for other in table.cells if _made_alike(cell) == _made_alike(other)]
    telling = {
        name: cell.settings[name]
        for name in SHARED & cell.settings.keys()
        if any(cell.settings[name] != other.settings.get(name) for other in alike)
    }
    return {**_own(cell), **telling}


def _made_alike(cell: Cell) -> tuple[object, ...]:
    # Compare the fields, not the blocks: a block may differ by its batch size alone.
    condition = cell.block.train_size, cell.block.shots, cell.block.augmentation
    return cell.row.method, cell.column, condition, _own(cell)


def _reads_paraphrases(cell: Cell) -> bool:
    if cell.row.method is None:
        return False
    joined = cell.block.augmentation is not None
    return joined or reads_paraphrases(method_class(cell.row.method)(), Training())


def _reason(cell: Cell) -> str:
    if cell.trainable:
        return ""
    return "a mean of others" if cell.row.method else "published only"


def studies_of(planned: Sequence[PlannedCell]) -> Iterator[PlannedCell]:
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
