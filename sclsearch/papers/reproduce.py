"""Reproduction of published tables: the study of each cell, its training, cost and comparison."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from rich.console import Console

from sclsearch.encoders.models import base_model
from sclsearch.errors import SclsearchError, first_line
from sclsearch.exports.export import describe_winner, encoder_place, export_encoder
from sclsearch.methods import find_method, method_class
from sclsearch.methods.base import Training, reads_paraphrases
from sclsearch.papers.tables import Cell, Settings, Table
from sclsearch.reports.report import Report, report
from sclsearch.search.plan import plan_prepared
from sclsearch.search.prepare import prepare_study
from sclsearch.search.run import run_prepared
from sclsearch.selection.rules import mean_std, parse_rule
from sclsearch.selection.significance import compare, holm
from sclsearch.spaces.load import PAPER, PRACTICAL, load_space, practical_file
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.store.storage import storage_folder, storage_path
from sclsearch.store.studies import study_names
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.metrics import METRICS, f1_by_class, value
from sclsearch.tasks.paraphrases import paraphrase_source

COSTS = ("study", "seed_runs", "missing", "seconds", "at_once")
ABOUT_CELL = ("warning", "doubt")
"""Kinds of notes that name the cell."""
OUT_OF_TIME = "the time budget is used up; the same command resumes"
SCALED_CONFIGS = 2
# Training fields of both phases, if there are two.
SHARED = frozenset(f"{phase}{field.name}" for phase in ("", "post_") for field in fields(Training))
NO_TEMPERATURE = (
    "the conditions that differ only in T are one study, because EDA, or a file without a "
    "temperature, makes their paraphrases"
)


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """Table cell and the study that reproduces it, or the reason why it cannot be trained here.

    `note` is a remark about the plan for readers of the score, and `first` the study that
    fine-tunes the encoder beforehand, if any. `weights` is True if the winner's weights are kept.
    """

    cell: Cell
    spec: StudySpec | None
    options: RunOptions
    reason: str = ""
    note: str = ""
    first: "PlannedCell | None" = None
    weights: bool = False


def plan_cells(
    table: Table,
    cells: Sequence[Cell],
    options: RunOptions,
    *,
    scale: Literal["laptop"] | None = None,
    model: str | None = None,
    paraphrases: Path | None = None,
) -> list[PlannedCell]:
    """Return the study of each cell of a table.

    At the paper's scale a study has one configuration, the cell's settings. At a smaller scale it
    is a search over two learning rates, because those of large encoders do not suit a small one.
    All rows of a table search the same range, so they compare fairly. Of the cell's settings, the
    fields of its method and those that distinguish it from others of its table are fixed; other
    fields of the search space have the values of its first published configuration. `model`
    replaces the encoder of the paper or of the scale.

    A file of paraphrases with another temperature than the cell's does not reproduce the cell. A
    file without a temperature, and EDA, give one score for every temperature.

    Raises:
        SclsearchError: No cell uses the paraphrases, or the file has faults.
    """
    if paraphrases and not any(map(_reads_paraphrases, cells)):
        raise SclsearchError(
            f"--paraphrases {paraphrases}: no selected cell reads paraphrases, by its method or "
            "among its training rows. Leave it out."
        )
    augmented = any(cell.temperature for cell in cells)
    temperature = paraphrase_source(paraphrases).temperature if augmented else None

    def planned(cell: Cell) -> PlannedCell:
        reason = _reason(cell, options, temperature)
        if reason or cell.method is None or cell.task is None:
            return PlannedCell(cell, None, options, reason)
        spec = StudySpec(
            method=cell.method,
            task=cell.task,
            model=cell.model if model is None and scale is None else model,
            protocol=cell.protocol,
            scale=scale,
            train_size=cell.train_size,
            shots=cell.shots,
            unlabeled=cell.unlabeled,
            space=PAPER if scale is None else PRACTICAL,
            settings=cell.settings if scale is None else _scaled_settings(table, cell),
            paraphrases=paraphrases if _reads_paraphrases(cell) else None,
            searched=scale is not None,
        )
        own = replace(options, configs=None if scale is None else SCALED_CONFIGS)
        rule = str(table.rule) if scale is None and table.rule else None
        first = None
        if task := cell.first_task:
            protocol = find_method(spec.method).kind.protocol
            whole = replace(spec, task=task, protocol=protocol, train_size=None, shots=None)
            first = PlannedCell(cell, whole, own)
        return PlannedCell(
            cell,
            spec,
            replace(own, rule=rule),
            note=NO_TEMPERATURE if cell.temperature and temperature is None else "",
            first=first,
            weights=table.embeddings,
        )

    return [planned(cell) for cell in cells]


def _reason(cell: Cell, options: RunOptions, temperature: float | None) -> str:
    if cell.method is None or cell.averages:
        return "a mean of other cells" if cell.method else "not a method of sclsearch"
    if cell.temperature and temperature not in (None, cell.temperature):
        return f"needs paraphrases at T={cell.temperature:g}, but the file has T={temperature:g}"
    if cell.first_task and storage_path(options.storage).local is None:
        return "its fine-tuned encoder needs a --storage folder that all machines can read"
    return ""


@cache
def _start(method: str) -> Settings:
    return load_space(practical_file(method), method).published[0]


def _scaled_settings(table: Table, cell: Cell) -> Settings:
    """Return the practical space's first configuration with settings of the cell.

    These are the fields of its method, and the training fields in which similar cells differ.
    """
    start = _start(str(cell.method))
    papers = {"head_lr_mult": 1.0} if "head_lr_mult" in start else {}
    similar = [other for other in table.cells if _similarity(cell) == _similarity(other)]
    own = {
        name: value
        for name, value in cell.settings.items()
        if name not in SHARED or any(value != other.settings.get(name) for other in similar)
    }
    return {**start, **papers, **own}


def _similarity(cell: Cell) -> tuple[object, ...]:
    # Compare the fields, not the blocks: a block may differ by its batch size alone.
    condition = cell.train_size, cell.shots, cell.temperature
    own = {name: value for name, value in cell.settings.items() if name not in SHARED}
    return cell.method, cell.column, condition, own


def _reads_paraphrases(cell: Cell) -> bool:
    if cell.method is None:
        return False
    joined = cell.temperature is not None
    return joined or reads_paraphrases(method_class(cell.method)(), Training())


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


@dataclass(frozen=True, slots=True)
class CellScore:
    """Reproduced score of a table cell.

    `tests` has the test score of each replicate of the winner, None for a failed one, and `subsets`
    the SHA-256 of its training rows. `mean` and `std` aggregate them by the study's rule; `plain`
    is the mean of all. `reason` says why there is no score.
    """

    cell: Cell
    mean: float | None = None
    std: float | None = None
    plain: float | None = None
    rule: str = ""
    tests: tuple[float | None, ...] = ()
    subsets: tuple[str, ...] = ()
    study: str = ""
    notes: tuple[str, ...] = ()
    reason: str = ""


def cost_of(one: PlannedCell) -> dict[str, Any]:
    """Return the values of a study's plan that `COSTS` names.

    The name is empty until the encoder from which the study starts is trained. A study that cannot
    be planned has a `reason` instead.
    """
    if one.spec is None:
        return {"reason": one.reason}
    try:
        folder = _stored_encoder(one.first) if one.first else None
        if folder is None and one.first is not None:
            # The encoder is not trained yet, so no stored seed run uses it.
            with TemporaryDirectory() as empty:
                nowhere = replace(one.options, storage=Path(empty))
                found = {**_plan(one.spec, nowhere), "study": ""}
        else:
            spec = one.spec if folder is None else replace(one.spec, model=str(folder))
            found = _plan(spec, one.options)
        return {name: found[name] for name in COSTS}
    except SclsearchError as error:
        return {"reason": first_line(error)}


def _plan(spec: StudySpec, options: RunOptions) -> dict[str, Any]:
    prepared = replace(prepare_study(spec, options, dry=True), weights=False)
    return plan_prepared(prepared)


def reproduce_cell(one: PlannedCell, console: Console, deadline: float = math.inf) -> CellScore:
    """Return a cell's reproduced score; train the seed runs that the store lacks.

    No seed run starts after `deadline`, a time by `time.monotonic`.
    """
    try:
        if one.first is not None and one.spec is not None:
            spec, note = _on_fine_tuned_encoder(one.spec, _trained(one.first, console, deadline))
            one = replace(one, spec=spec, note=note, first=None)
        return _score(one, _trained(one, console, deadline))
    except SclsearchError as error:
        return CellScore(one.cell, reason=first_line(error))


def _trained(one: PlannedCell, console: Console, deadline: float) -> Report:
    if one.spec is None:
        raise SclsearchError(one.reason)
    options = one.options
    if deadline < math.inf:
        options = replace(options, time_budget=max(deadline - time.monotonic(), 0.0))
        if not options.time_budget and _plan(one.spec, options)["missing"]:
            raise SclsearchError(OUT_OF_TIME)
    prepared = replace(prepare_study(one.spec, options), weights=one.weights)
    done = run_prepared(prepared, console)
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    if done.ending != "complete":
        raise SclsearchError(OUT_OF_TIME)
    return done.report()


def _score(one: PlannedCell, found: Report) -> CellScore:
    winner = found.winner
    if winner is None:
        failed = "all its seed runs failed" if found.failures else "its study is not finished"
        raise SclsearchError(failed)
    of_class = _class_number(one.cell, one.options)
    tests = [
        None if run is None or run.failure else _test_score(one.cell, run, of_class)
        for run in RunStore(one.options.storage).get_all(seed.key for seed in winner.seeds)
    ]
    reported = [test for position in winner.reported if (test := tests[position]) is not None]
    if not reported:
        raise SclsearchError("all its seed runs failed")
    mean, std = mean_std(reported)
    about = (n.about(one.cell.name) if n.kind in ABOUT_CELL else n for n in found.notes)
    return CellScore(
        cell=one.cell,
        mean=mean,
        std=std,
        plain=mean_std([test for test in tests if test is not None])[0],
        rule=found.rule,
        tests=tuple(tests),
        subsets=tuple(rows["train"] for rows in found.rows),
        study=found.study,
        notes=(*_departures(one, found), *about),
    )


def _departures(one: PlannedCell, found: Report) -> Iterator[str]:
    cell, base = one.cell, base_model(found.model_place)
    if base != cell.model:
        yield f"model {base}, not {cell.model}"
    if len(found.configurations) > 1:
        yield f"ours is the best of {len(found.configurations)} configurations by validation"
    if cell.note:
        yield f"{cell.row}: {cell.note}"
    if one.note:
        yield one.note


def _test_score(cell: Cell, run: SeedRun, of_class: int | None) -> float:
    if of_class is None:
        return value(cell.metric, run.test)
    return float(f1_by_class(np.array(run.test["confusion"], np.int64))[of_class])


def _class_number(cell: Cell, options: RunOptions) -> int | None:
    """Return the class whose F1 is printed: the rarest or the most frequent in the training rows.

    Among equally frequent classes the first is the rarest, as in the imbalanced protocols.
    """
    if cell.of_class is None or cell.task is None:
        return None
    y = load_task(cell.task, options.data_dir).splits["train"].y
    order = np.argsort(np.bincount(y.astype(np.int64)), kind="stable")
    return int(order[0 if cell.of_class == "minority" else -1])


def _on_fine_tuned_encoder(spec: StudySpec, found: Report) -> tuple[StudySpec, str]:
    record = describe_winner(found)
    folder = export_encoder(found)
    note = (
        f"encoder first fine-tuned on {record.task} by {record.method}: seed {record.replicate}, "
        f"the best of {record.seeds} by validation, {record.metric} {record.validation:.4f}"
    )
    return replace(spec, model=str(folder)), note


def _stored_encoder(first: PlannedCell) -> Path | None:
    if first.spec is None:
        return None
    found = _plan(first.spec, first.options)
    storage = storage_folder(first.options.storage, make=False)
    study = found["study"]
    if found["stored"] < found["seed_runs"] or study not in study_names(storage):
        return None
    rule = parse_rule(found["rule"])
    done = report(storage, study, rule, found["seeds"], found["configurations"])
    folder = encoder_place(done)
    return folder if folder.exists() else None


def compare_rows(scores: Sequence[CellScore]) -> list[dict[str, Any]]:
    """Return the comparison of each row with the first reproduced one, by task and condition.

    `ours` and `base` are the cells, `comparison` pairs their replicates, and `adjusted` is its p,
    adjusted for all comparisons of the table (Holm). Pairs without a replicate that finished in
    both are omitted. If several conditions share one study, they count once.
    """
    places: dict[tuple[str, str], list[CellScore]] = {}
    for one in scores:
        if one.mean is not None:
            places.setdefault((one.cell.block, one.cell.column), []).append(one)
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for base, one in ((base, one) for base, *others in places.values() for one in others):
        key = one.cell.row, one.cell.column, one.study, base.study
        pairs = zip(one.tests, base.tests, strict=True)
        if key not in found and any(None not in both for both in pairs):
            largest = METRICS[base.cell.metric].span
            comparison = compare(one.tests, base.tests, base.subsets, largest=largest)
            found[key] = {"ours": one.cell, "base": base.cell, "comparison": comparison}
    adjusted = holm([pair["comparison"].p for pair in found.values()])
    return [{**pair, "adjusted": p} for pair, p in zip(found.values(), adjusted, strict=True)]
