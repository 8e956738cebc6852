"""Python API: search, training, reports, exports and removal, as the commands do them."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from rich.console import Console

from sclsearch.arguments import expanded, fields_of, with_options
from sclsearch.encoders.models import ALIASES, several_models
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.exports.export import ExportOptions
from sclsearch.exports.export import export as export_winner
from sclsearch.exports.export import push as push_to
from sclsearch.exports.predictor import BATCH_SIZE, ExportRecord, Predictor, RefitRows
from sclsearch.exports.predictor import load as load_export
from sclsearch.reports.commands import winner_spec
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.method_comparison import MethodComparison, compare_methods
from sclsearch.reports.report import Report, report, undamaged
from sclsearch.reports.terminal import Terminal
from sclsearch.search.callbacks import Callback
from sclsearch.selection.rules import parse_rule
from sclsearch.store.cleanup import (
    WAIT,
    Cleanup,
    check_no_drivers,
    delete_planned,
    plan_removal,
    study_to_remove,
)
from sclsearch.store.lock import sole_driver
from sclsearch.store.storage import DEFAULT_STORAGE, Storage, storage_folder
from sclsearch.store.studies import study_names
from sclsearch.study.spec import (
    DEFAULT_METHOD,
    SEARCH_OPTIONS,
    RunKeywords,
    RunOptions,
    StudySpec,
    TrainKeywords,
    TuneKeywords,
)
from sclsearch.tasks import TASKS, as_task, check_data_dir
from sclsearch.tasks.custom import CustomTask, RowSource

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.methods.base import Method
    from sclsearch.reports.table import TableRows
    from sclsearch.search.scheduler import Scheduler

    AnyMethod = str | type[Method]
    SeveralMethods = list[str] | list[type[Method]] | list[AnyMethod] | tuple[AnyMethod, ...]


_LOG = logging.getLogger(__name__)
FIRST = 5
"""Configurations of another study that a search begins with."""


@overload
def tune(
    *,
    task: RowSource | CustomTask,
    method: "AnyMethod" = DEFAULT_METHOD,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[TuneKeywords],
) -> Report: ...


@overload
def tune(
    *,
    task: RowSource | CustomTask,
    method: "SeveralMethods",
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[TuneKeywords],
) -> StudyComparison: ...


@with_options(CustomTask, StudySpec, RunOptions)
def tune(
    *,
    task: RowSource | CustomTask,
    method: "str | type[Method] | Sequence[str | type[Method]]" = DEFAULT_METHOD,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[TuneKeywords],
) -> Report | StudyComparison:
    """Search for the best configuration and return the report; the same call resumes the search.

    Several methods, or several models, are searched in turn, each with the same number of
    configurations and seeds. The function then returns the paired comparison of their winners,
    whose reference is the best. An error in one does not stop the others. If `time_budget`
    ends the search early, some configurations have no score.

    Example:
        >>> report = tune(method="scl", task="cola", train_size=100, configs=6)  # doctest: +SKIP
        >>> found = tune(method=["ce", "scl"], task="cola", configs=6)  # doctest: +SKIP

    Args:
        method: Name of the method, `FILE.py:CLASS`, or the class of a method of your own. A list
            or a tuple searches several methods.
        task: Name of a published task; or a file, a pandas data frame, a `datasets.Dataset` or
            `hf:owner/name`, whose columns are options; or a `CustomTask`.
        progress: Whether to show progress.
        callbacks: Callbacks for search events, run in this process.

    Raises:
        SclsearchError: An argument or a file is invalid, or the search of a method failed; the
            message says what to change.
        KeyboardInterrupt: The search was interrupted; the same call resumes it.
    """
    console = Terminal(stderr=True, quiet=not progress)
    models = several_models(options.get("model"))
    if isinstance(method, Sequence) and not isinstance(method, str):
        return _tuned_in_turn(method, models, task, options, console, callbacks)
    if len(models) != 1:
        return _tuned_in_turn([method], models, task, options, console, callbacks)
    return _trained(*chosen(task, method, {**options, "model": models[0]}), console, callbacks)


@with_options(CustomTask, StudySpec, RunOptions)
def train(
    *,
    task: RowSource | CustomTask | None = None,
    method: "str | type[Method] | None" = None,
    from_study: str | Report | None = None,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    **options: Unpack[TrainKeywords],
) -> Report:
    """Train one configuration with every seed and return the report; see `tune`.

    The configuration is the starting point of the search space, or the winner of `from_study`, a
    study's name or report. The winner gives every hyperparameter, the method, the task, the model
    and the protocol; other arguments replace these. `method` is then required only for a method of
    your own. The options are those of `tune` without those of a search: configurations, sampler,
    budgets, race and `test_scores`.

    Example:
        >>> report = train(method="scl", task="cola", settings={"tau": 0.1})  # doctest: +SKIP
        >>> report = train(from_study="scl-cola", task="mrpc", seeds=3)  # doctest: +SKIP
    """
    if searching := [name for name in SEARCH_OPTIONS if name in options]:
        raise SclsearchError(
            f"{', '.join(searching)}: only searches have this. Leave it out, or call tune."
        )
    spec, run_options = chosen(task, method, options, searched=False, from_study=from_study)
    return _trained(spec, run_options, Terminal(stderr=True, quiet=not progress), callbacks)


@with_options(RunOptions)
def confirm(
    study: str,
    seeds: int = 10,
    *,
    rule: str | None = None,
    method: str | None = None,
    data_dir: Path | str | None = None,
    progress: bool = True,
    **options: Unpack[RunKeywords],
) -> Report:
    """Train a study's winner on new seeds, which did not choose it, and return their report.

    The same call resumes. The report is that of a study of its own, which `compare` takes, too.

    Example:
        >>> confirm("scl-cola", 10).winner.test_mean  # doctest: +SKIP

    Args:
        study: The study's name.
        seeds: Number of new seeds.
        rule: Selection rule that chooses the winner; None uses the study's.
        method: Custom method of the study as `FILE.py:CLASS`, if it is in a file.
        data_dir: Folder of the task's files, if they moved.
        progress: Whether to show progress.

    Raises:
        SclsearchError: The study does not exist, has no winner, or its data or weights changed.
        KeyboardInterrupt: The training was interrupted.
    """
    from sclsearch.papers.confirm import confirm as confirmed

    place = storage_folder(options.pop("storage", DEFAULT_STORAGE), make=False)
    given: dict[str, Any] = {"rule": rule, "custom_method": method, "data_dir": data_dir}
    run = RunOptions(**{**options, **given, "storage": place})
    return confirmed(study, seeds, run, Terminal(stderr=True, quiet=not progress))[1]


def chosen(
    task: RowSource | CustomTask | None,
    method: "AnyMethod | None",
    options: Mapping[str, Any],
    *,
    searched: bool = True,
    from_study: str | Report | None = None,
) -> tuple[StudySpec, RunOptions]:
    """Return the study and the run options that `tune`, or `train` with `from_study`, describe."""
    known = TuneKeywords.__annotations__
    for name in options:
        if name not in known:
            raise SclsearchError(
                f"{name}: unknown argument.{suggestion(name, known)} Pass hyperparameters as "
                "settings, such as settings={'epochs': 4}."
            )
    run_options = RunOptions(**fields_of(RunOptions, options))
    columns, changes = fields_of(CustomTask, options), fields_of(StudySpec, options)
    if from_study is not None:
        if isinstance(from_study, str):
            from_study = select(from_study, storage=run_options.storage)
        spec, folder = winner_spec(from_study, changes, method)
        if task is not None or columns:
            spec = replace(spec, task=_changed_task(spec.task, task, columns))
        elif run_options.data_dir is None:
            run_options = replace(run_options, data_dir=folder)
    else:
        spec = _new_spec(task, method, columns, {**changes, "searched": searched})
    check_data_dir(spec.task, run_options.data_dir)
    if spec.start_from is not None:
        best = undamaged(select(spec.start_from, storage=run_options.storage))
        first = tuple(line.fields for line in best.configurations[:FIRST])
        spec = replace(spec, first=first)
    return replace(spec, model=_study_encoder(spec.model, run_options)), run_options


def in_turn(
    methods: "Sequence[AnyMethod]", models: Sequence[str | Path | None], options: RunOptions
) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields of studies that run in turn; the name of a study stands for its encoder."""
    from sclsearch.search.prepare import variants

    given = variants(methods, models)
    if len(models) == 1:
        return given
    return {name: {"model": _study_encoder(one["model"], options)} for name, one in given.items()}


def _study_encoder(model: str | Path | None, options: RunOptions) -> str | Path | None:
    """Return the encoder of a study's winner if the model is the name of a study."""
    if len(several_models(model)) > 1:
        raise SclsearchError(f"--model {model}: must be one encoder; only tune takes several.")
    if not isinstance(model, str) or "/" in model or model in ALIASES or Path(model).exists():
        return model
    storage = storage_folder(options.storage, make=False)
    if model not in study_names(storage):
        return model
    from sclsearch.exports.export import export_encoder

    return str(export_encoder(undamaged(report(storage, model))))


def _new_spec(
    task: RowSource | CustomTask | None,
    method: "AnyMethod | None",
    columns: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> StudySpec:
    if task is None:
        raise SclsearchError("--task: must be given without --from. Pass it.")
    if isinstance(method, str) and "," in method:
        raise SclsearchError(f"method {method!r}: must be one name. Pass several as a list.")
    method = DEFAULT_METHOD if method is None else method
    return StudySpec(task=as_task(task, **columns), method=method, **changes)


def _changed_task(
    before: str | CustomTask, task: RowSource | CustomTask | None, columns: Mapping[str, Any]
) -> str | CustomTask:
    """Return another task, or the earlier one with other columns or splits."""
    published = isinstance(task, str) and task in TASKS
    if published or isinstance(before, str) or isinstance(task, CustomTask):
        return as_task(before if task is None else task, **columns)
    if task is None:
        return replace(before, **columns)
    kept = {name: getattr(before, name) for name in ("text", "label", "regression")}
    return as_task(task, **{**kept, **columns})


def _tuned_in_turn(
    methods: "Sequence[AnyMethod]",
    models: Sequence[str | Path | None],
    task: RowSource | CustomTask,
    options: Mapping[str, Any],
    console: Console,
    callbacks: Sequence[Callback],
) -> StudyComparison:
    if len(methods) * len(models) < 2:
        raise SclsearchError(
            "--method, --model: a list must have two or more names. Pass one without a list."
        )
    spec, run_options = chosen(task, methods[0], {**options, "model": models[0]})
    from sclsearch.search.prepare import prepare_several
    from sclsearch.search.run import run_several

    reports, faults = list[Report](), list[str]()
    studies = prepare_several(in_turn(methods, models, run_options), spec, run_options)
    for name, done in run_several(studies, console, callbacks):
        if isinstance(done, SclsearchError):
            faults.append(f"{name}: {done}")
        else:
            reports.append(_report(done))
    if faults:
        raise SclsearchError("\n".join(faults))
    return compare_studies(reports)


def _trained(
    spec: StudySpec, options: RunOptions, console: Console, callbacks: Sequence[Callback]
) -> Report:
    from sclsearch.search.run import run

    return _report(run(spec, options, console, callbacks))


def _report(done: "Scheduler") -> Report:
    """Return the report of a search; raise KeyboardInterrupt if it was interrupted."""
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    if done.tracking:
        _LOG.warning("MLflow: %s. The same call completes it.", done.tracking)
    return done.report()


def select(
    study: str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> Report:
    """Return the report of a study under any selection rule, without training.

    `rule` is `mean`, `best`, `top-3`, `mean/best` or alike; None uses the rule of the study's
    first run. `seeds` is the number of replicates to use, from the first; None uses all.
    """
    place = storage_folder(storage, make=False)
    return report(place, study, None if rule is None else parse_rule(rule), seeds)


def table(
    *studies: str,
    rows: "TableRows" = "configurations",
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
) -> "pd.DataFrame":
    """Return configurations, seed runs or winners of studies as one data frame, without training.

    `sclsearch.reports.table` describes the columns. A `rule` of None is each study's own rule.

    Example:
        >>> frame = table("scl-cola", "ce-cola", rows="seed-runs")  # doctest: +SKIP
    """
    from sclsearch.reports.table import study_table

    if not studies:
        raise SclsearchError("studies: must be at least one, got none. Pass names of studies.")
    return study_table([select(study, rule=rule, storage=storage) for study in studies], rows)


def compare(
    *studies: str,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> StudyComparison | MethodComparison:
    """Return a paired comparison of the winners of several studies, without training.

    The best study is the reference. The comparison uses the test scores of all replicates, or of
    the first `seeds`, paired by replicate. Under one protocol, the methods share a replicate's
    rows, their order and the initial weights of a head. A `rule` of None is each study's own rule.

    Studies of several tasks, one per method and task, are compared by the mean ranks of the
    methods, with Friedman's test and Nemenyi's critical difference, or with Wilcoxon's signed-rank
    test for two methods. The function then returns a `MethodComparison`.

    Raises:
        SclsearchError: A study does not exist or has no winner, or the studies are not comparable.
    """
    reports = [select(study, rule=rule, storage=storage, seeds=seeds) for study in studies]
    several = len({one.task for one in reports}) > 1
    return compare_methods(reports) if several else compare_studies(reports)


def write_report(
    *studies: str,
    output: Path | str,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    texts: bool = True,
    data_dir: Path | str | None = None,
    method: "str | type[Method] | None" = None,
) -> Path:
    """Write a report of studies as a folder and return the path of its page, `index.html`.

    The page is one self-contained file that opens in any browser. `figures/` has its figures as
    SVG, `tables/` its tables and all configurations and seed runs as CSV. Several studies are also
    compared.

    Example:
        >>> write_report("scl-cola", "ce-cola", output="report")  # doctest: +SKIP

    `output` is missing, empty, or an earlier report, which is replaced. A `rule` of None is each
    study's own rule. `texts` shows texts of the task. `data_dir` is the folder of the task's files,
    if they moved, and `method` the custom method of the studies.
    """
    from sclsearch.reports.page import write_page

    place = None if data_dir is None else expanded(Path(data_dir))
    reports = [select(study, rule=rule, storage=storage) for study in studies]
    folder = expanded(Path(output))
    return write_page(reports, folder, texts=texts, data_dir=place, method=method)


def export(
    study: str,
    folder: Path | str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    ensemble: bool = False,
    refit: RefitRows | None = None,
    baseline: bool = False,
    seeds: int = 1,
    calibrate: bool = False,
    threshold: Literal["tune"] | None = None,
    data_dir: Path | str | None = None,
    method: "str | type[Method] | None" = None,
    force: bool = False,
    onnx: bool = False,
    push: str | None = None,
) -> ExportRecord:
    """Write a study's winner, with a model card, to a folder and return its description.

    A model of the search is then read again, and its predictions are compared with the stored
    ones; if the study's data or method is not at hand, a warning says so.

    `transformers.pipeline("text-classification", model=folder)` loads it if a class of transformers
    computes its head, and with `trust_remote_code=True` if the head reads one embedding;
    `sclsearch.load` always does.

    Args:
        study: The study's name.
        folder: An empty or missing folder.
        rule: Selection rule that chooses the winner; None uses the rule of the study's first run.
        storage: Storage of the study.
        ensemble: Export every reported seed, as one model that averages their probabilities.
        refit: Train the winner's configuration once more and export that model. `validation` trains
            on the training and validation rows of all seeds, `all` also on the test rows. None
            exports a model of the search.
        baseline: Export the linear model on the frozen encoder (logistic regression, or ridge
            regression for scores) instead of the winner; with `refit`, fitted on its rows.
        seeds: Number of models that a refit trains; several are exported as an ensemble.
        calibrate: Divide the logits by a temperature fitted on the validation rows: temperature
            scaling, Guo et al. (2017). `record.calibration` has it and the scores before and after.
        threshold: With `tune`, predict the second of two classes from the probability that has the
            best metric on the validation rows; None predicts the likelier class.
        data_dir: Folder of the task's files, if they moved.
        method: Custom method of the study, as `FILE.py:CLASS` or its class. `refit` and `baseline`
            need it, and the comparison with the stored predictions.
        force: Export a winner that is useless by `Report.verdict`, too.
        onnx: Whether to write `onnx/model.onnx`, for programs without torch, too; `record.onnx` has
            its scores.
        push: Repository on the Hugging Face hub to upload to, `owner/name`; None for no upload. A
            missing repository becomes a private one; other files of an existing one are deleted.

    Raises:
        SclsearchError: The study does not exist, has no winner or a useless one, the written model
            predicts otherwise than the trained one, the folder is not empty, or the upload fails.
    """
    options = ExportOptions(
        ensemble=ensemble,
        refit=refit,
        baseline=baseline,
        seeds=seeds,
        calibrate=calibrate,
        threshold=threshold,
        data_dir=None if data_dir is None else expanded(Path(data_dir)),
        method=method,
        force=force,
        onnx=onnx,
    )
    found = select(study, rule=rule, storage=storage)
    target = expanded(Path(folder))
    record = export_winner(found, target, options)
    if push is not None:
        push_to(target, push)
    return record


def load(
    folder: Path | str,
    *,
    method: "str | type[Method] | None" = None,
    device: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Predictor:
    """Return an exported winner as a classifier in memory, for many predictions.

    `method` is the custom method of the export, as `FILE.py:CLASS` or its class: code that an
    export names runs only if the caller passes it. `device` is one of torch; None uses the GPU if
    there is one. The encoder reads at most `batch_size` texts at a time.

    Example:
        >>> classifier = load("./winner")  # doctest: +SKIP
        >>> classifier.predict_proba(["a fine film"])  # doctest: +SKIP

    Raises:
        SclsearchError: The folder is no export, its method is missing, or there is no such device.
    """
    return load_export(expanded(Path(folder)), method, device, batch_size)


def remove(
    *studies: str, unused: bool = False, storage: Storage = DEFAULT_STORAGE, dry_run: bool = False
) -> Cleanup:
    """Delete studies, and return the deleted files with their sizes.

    Seed runs that other studies share stay. MLflow runs of the studies are deleted if the database
    is in the storage; runs in another MLflow store stay. `unused` also deletes seed runs and
    weights that no study names, and files of interrupted writes. `dry_run` deletes nothing.

    Raises:
        SclsearchError: A study does not exist, a search is running it (with `unused`: any search is
            running), or records of another study are damaged, so that its seed runs are unknown.
    """
    from sclsearch.tracking.publish import delete_runs, tracked_run_ids

    if not (studies or unused):
        raise SclsearchError("studies: names none. Name one, or pass --unused.")
    place = storage_folder(storage, make=False)
    stores = [study_to_remove(place, name) for name in dict.fromkeys(studies)]
    with ExitStack() as drivers:
        if not dry_run:
            for store in stores:
                drivers.enter_context(sole_driver(store.folder, _LOG.warning, WAIT))
        if unused and not dry_run:
            check_no_drivers(place, _LOG.warning, studies)
        run_ids = [one for store in stores for one in tracked_run_ids(place, store)]
        found = replace(plan_removal(place, stores, unused=unused), tracked=len(run_ids))
        if not dry_run:
            if unused:  # a search that started meanwhile reads seed runs
                check_no_drivers(place, _LOG.warning, studies)
            delete_runs(place, run_ids)
            delete_planned(place, stores, found)
    return found
