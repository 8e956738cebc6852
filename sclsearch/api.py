"""Python API: one function for each command of the same name."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rich.console import Console

from sclsearch.arguments import expanded, fields_of
from sclsearch.errors import SclsearchError, suggestion
from sclsearch.reports.comparison import StudyComparison, compare_studies
from sclsearch.reports.export import export as export_winner
from sclsearch.reports.export_record import ExportRecord
from sclsearch.reports.hub import check_repository
from sclsearch.reports.hub import push as push_to
from sclsearch.reports.predictor import BATCH_SIZE, Prediction, Predictor
from sclsearch.reports.predictor import load as load_export
from sclsearch.reports.report import Report, report
from sclsearch.reports.table import TableRows, study_table
from sclsearch.selection.rules import parse_rule
from sclsearch.store.storage import DEFAULT_STORAGE, Storage, storage_folder
from sclsearch.study.spec import RunOptions, StudySpec, TuneKeywords
from sclsearch.tasks import check_data_dir
from sclsearch.tasks.base import Texts
from sclsearch.tasks.custom import CustomTask

if TYPE_CHECKING:
    import pandas as pd

    from sclsearch.methods.base import Method
    from sclsearch.reports.verification import Verification
    from sclsearch.search.run import SearchResult


def tune(
    *,
    method: "str | type[Method]",
    task: str | CustomTask,
    progress: bool = True,
    **options: Unpack[TuneKeywords],
) -> Report:
    """Search for the best configuration and return the report; the same call resumes the search.

    Example:
        >>> report = tune(method="scl", task="cola", train_size=100, configs=6)  # doctest: +SKIP

    If `time_budget` ends the search early, some configurations have no score yet.

    Args:
        method: Name of the method, `FILE.py:CLASS`, or the class of a method of your own.
        task: Name of the task, or `CustomTask` for your own files.
        progress: Whether to show progress.
        options: Fields of `StudySpec` (data, model, protocol, search space) and `RunOptions`
            (storage, resources, budgets, tracking); both list them with their defaults.

    Raises:
        SclsearchError: An argument or a file is invalid; the message says what to change.
        KeyboardInterrupt: The search was interrupted; the same call resumes it.
    """
    return _trained(_spec(method, task, options), options, progress=progress)


def train(
    *,
    method: "str | type[Method]",
    task: str | CustomTask,
    progress: bool = True,
    **options: Unpack[TuneKeywords],
) -> Report:
    """Train one configuration with every seed and return the report.

    The configuration is the starting point of the search space, changed by `settings`.

    Example:
        >>> report = train(method="scl", task="cola", settings={"tau": 0.1})  # doctest: +SKIP

    Args:
        method: Name of the method, `FILE.py:CLASS`, or the class of a method of your own.
        task: Name of the task, or `CustomTask` for your own files.
        progress: Whether to show progress.
        options: As in `tune`.

    Raises:
        SclsearchError: An argument or a file is invalid; the message says what to change.
        KeyboardInterrupt: The training was interrupted; the same call resumes it.
    """
    spec = replace(_spec(method, task, options), searched=False)
    return _trained(spec, options, progress=progress)


def _spec(
    method: "str | type[Method]", task: str | CustomTask, options: Mapping[str, Any]
) -> StudySpec:
    known = [field.name for kind in (StudySpec, RunOptions) for field in fields(kind)]
    for name in options:
        if name not in known:
            raise SclsearchError(f"{name}: unknown argument.{suggestion(name, known)}")
    return StudySpec(method=method, task=task, **fields_of(StudySpec, options))


def _trained(spec: StudySpec, options: Mapping[str, Any], *, progress: bool) -> Report:
    run_options = RunOptions(**fields_of(RunOptions, options))
    check_data_dir(spec.task, run_options.data_dir)
    from sclsearch.search.run import run

    done = run(spec, run_options, Console(stderr=True, quiet=not progress))
    if done.ending == "interrupted":
        raise KeyboardInterrupt
    return report_of(done)


def select(
    study: str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> Report:
    """Return the report of a study under any selection rule, without training.

    Args:
        study: The study's name.
        rule: Selection rule, for example `mean`, `best`, `top-3` or `mean/best`. None uses the
            rule of the study's first run.
        storage: Storage of the study.
        seeds: Number of replicates to use, from the first; None uses all.

    Raises:
        SclsearchError: The study or the rule does not exist.
    """
    place = storage_folder(storage, make=False)
    return report(place, study, None if rule is None else parse_rule(rule), seeds)


def table(
    *studies: str,
    rows: TableRows = "configurations",
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
) -> "pd.DataFrame":
    """Return the configurations or the seed runs of studies as one data frame, without training.

    Example:
        >>> frame = table("scl-cola", "ce-cola", rows="seed-runs")  # doctest: +SKIP

    Args:
        studies: Names of one or more studies.
        rows: `configurations` or `seed-runs`. `sclsearch.reports.frames` describes the columns.
        rule: Selection rule; None uses each study's own rule.
        storage: Storage of the studies.

    Raises:
        SclsearchError: A study or the rule does not exist, or no study is given.
    """
    if not studies:
        raise SclsearchError("studies: must be at least one, got none. Pass names of studies.")
    return study_table([select(study, rule=rule, storage=storage) for study in studies], rows)


def compare(
    *studies: str,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    seeds: int | None = None,
) -> StudyComparison:
    """Return a paired comparison of the winners of several studies, without training.

    The first study is the reference. The comparison uses the test scores of all replicates, paired
    by replicate. Under one protocol, the methods share a replicate's rows, their order and the
    initial weights of a head.

    Args:
        studies: Names of two or more studies of one task and protocol.
        rule: Selection rule that chooses the winners; None uses each study's own rule.
        storage: Storage of the studies.
        seeds: Number of replicates to use, from the first; None uses as many as all studies have.

    Raises:
        SclsearchError: A study does not exist or has no winner, or the studies are not comparable.
    """
    return compare_studies(
        [select(study, rule=rule, storage=storage, seeds=seeds) for study in studies]
    )


def export(
    study: str,
    folder: Path | str,
    *,
    rule: str | None = None,
    storage: Storage = DEFAULT_STORAGE,
    ensemble: bool = False,
    push: str | None = None,
    public: bool = False,
) -> ExportRecord:
    """Write a study's winner, with a model card, to a folder and return its description.

    `transformers.pipeline("text-classification", model=folder)` loads it if the head has an exact
    counterpart in the encoder's architecture; `sclsearch.load` always does.

    Args:
        study: The study's name.
        folder: An empty or missing folder.
        rule: Selection rule that chooses the winner; None uses the rule of the study's first run.
        storage: Storage of the study.
        ensemble: Export every reported seed, as one model that averages their probabilities.
        push: Repository on the Hugging Face hub to upload to, `owner/name`; None for no upload.
        public: Create a public repository, or accept that the existing one is public.

    Raises:
        SclsearchError: The study does not exist, has no winner or no stored weights, the folder is
            not empty, or the upload fails.
    """
    if push is not None:
        check_repository(push)
    found = select(study, rule=rule, storage=storage)
    target = expanded(Path(folder))
    record = export_winner(found, storage_folder(storage, make=False), target, ensemble=ensemble)
    if push is not None:
        push_to(target, push, public=public)
    return record


def load(
    folder: Path | str,
    *,
    method: "str | type[Method] | None" = None,
    device: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> Predictor:
    """Return an exported winner as a classifier in memory, for many predictions.

    Example:
        >>> classifier = load("./winner")  # doctest: +SKIP
        >>> classifier.predict_proba(["a fine film"])  # doctest: +SKIP

    Args:
        folder: Folder written by `export`.
        method: Custom method of the export, as `FILE.py:CLASS` or its class. Code that an export
            names runs only if the caller passes it here.
        device: `cpu`, `cuda` or another device of torch; None uses the GPU if there is one.
        batch_size: Most texts that the encoder reads at a time.

    Raises:
        SclsearchError: The folder is no export, its method is missing, or there is no such device.
    """
    return load_export(expanded(Path(folder)), method, device, batch_size)


def predict(
    folder: Path | str,
    texts: Sequence[str | Texts],
    *,
    method: "str | type[Method] | None" = None,
) -> list[Prediction]:
    """Return the predictions of an exported winner for new texts, in the order of the texts.

    Every call loads the export; `load` keeps it in memory.

    Args:
        folder: Folder written by `export`.
        texts: Texts, or text pairs if the task has pairs.
        method: Custom method of the export, as in `load`.

    Raises:
        SclsearchError: The folder is no export, its method is missing, or a text is invalid: empty,
            a pair where the task has none, or a single text where the task has pairs.
    """
    return load(folder, method=method).predict(texts)


def verify(
    folder: Path | str,
    *,
    data_dir: Path | str | None = None,
    method: "str | type[Method] | None" = None,
    tolerance: float = 0.0,
) -> "Verification":
    """Evaluate an export on the test rows of its study and compare with the recorded score.

    Args:
        folder: Folder written by `export`.
        data_dir: Folder of the task's files, if they moved.
        method: Custom method of the export, as in `load`.
        tolerance: Accepted difference of the score, for another device than in training.

    Raises:
        SclsearchError: The folder is no export, or the data changed.
    """
    from sclsearch.reports.verification import verify as verify_export

    data = None if data_dir is None else expanded(Path(data_dir))
    return verify_export(expanded(Path(folder)), data, method, tolerance)


def report_of(done: "SearchResult") -> Report:
    """Return the report of a study from the result of its run."""
    return report(done.storage, done.name, done.rule, done.seeds, done.configs)
