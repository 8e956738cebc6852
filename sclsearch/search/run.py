"""Execution of a study, from its options to its last seed run."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event

from rich.console import Console

from sclsearch.canonical import counted
from sclsearch.errors import SclsearchError
from sclsearch.ray_backend.signals import held_ctrl_c, restored_signal_handlers, sigterm_as_ctrl_c
from sclsearch.reports.report import Report, report
from sclsearch.reports.terminal import duration
from sclsearch.search.callbacks import Callback, Progress, notify
from sclsearch.search.estimate import estimate
from sclsearch.search.prepare import check_new, prepare_study
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.rules import Rule
from sclsearch.store.driver import lost_to_another, sole_driver
from sclsearch.store.storage import Storage
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.resources import unusable_gpu
from sclsearch.study.spec import NO_TRACKING, Ending, RunOptions, StudySpec
from sclsearch.study.tokenized import tokenized
from sclsearch.tracking.logger import MLflowLogger, failure_reason
from sclsearch.tracking.model import check_model_name
from sclsearch.tracking.publish import publish
from sclsearch.tracking.server import NO_DATABASE, find_tracking_uri
from sclsearch.tracking.server import prepare as prepare_database

STOPPING = "Stopping; Ctrl-C again stops at once"
OPENING = 0.45
"""Share of a time budget after which no configuration is added: the rest is for further seeds."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Result of one run of a study.

    Attributes:
        wanted: Number of requested seed runs, without those that a race has skipped.
        done: Number of these that are finished.
        trained: Number of these that this run trained.
        reused: Number of these that this run read from the store.
        skipped: Number of requested seed runs that a race has skipped.
        failed: Number of finished seed runs that failed permanently.
        to_test: Number of finished seed runs that still lack the test score that they must have.
        tracking: Reason why MLflow does not show everything; None if it does.
        rule: Rule of this run; the study's record holds the rule of its first run.
        seeds: Replicates per configuration.
        configs: Number of requested configurations.
    """

    name: str
    storage: Storage
    wanted: int
    done: int
    trained: int
    reused: int
    skipped: int
    failed: int
    to_test: int
    ending: Ending
    tracking: str | None
    rule: Rule
    seeds: int
    configs: int

    def report(self) -> Report:
        """Return the report of the study."""
        return report(self.storage, self.name, self.rule, self.seeds, self.configs)


def run(
    spec: StudySpec, options: RunOptions, console: Console, callbacks: Sequence[Callback] = ()
) -> SearchResult:
    """Run a study until it is complete, stopped or out of time."""
    with sigterm_as_ctrl_c():
        return run_prepared(prepare_study(spec, options), options, console, callbacks)


@sigterm_as_ctrl_c()
def run_prepared(
    prepared: PreparedStudy,
    options: RunOptions,
    console: Console,
    callbacks: Sequence[Callback] = (),
) -> SearchResult:
    """Run a study that was prepared with the same `options`.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM came before the first seed run.
    """
    study, store = prepared.study, prepared.store
    if options.gpus_per_trial is None and options.address is None and (warning := unusable_gpu()):
        console.print(warning, style="yellow", markup=False, soft_wrap=True)
    new = store.record() is None
    if new:
        _show_step(console, f"Loading {study.model_name}")
    check_new(prepared, options)  # a study that cannot train must write nothing
    uri = find_tracking_uri(options.tracking, prepared.storage)
    check_model_name(options.register, uri)
    if uri is not None:
        prepare_database(uri)
    with sole_driver(store.folder, show_message=console.print) as lost:
        prepared = prepared.begin()
        notify(callbacks, "on_study", prepared.record)
        progress = Progress(console, prepared.configs * study.seeds)
        logger = MLflowLogger(uri) if uri else None
        scheduler = Scheduler(
            prepared,
            retry_failed=options.retry_failed,
            callbacks=[progress, *callbacks],
        )
        scheduler.refill()
        ending: Ending = "complete"
        tracking = None if options.tracking == NO_TRACKING else NO_DATABASE
        try:
            if not scheduler.complete:
                _show_plan(prepared, scheduler, options, console, new=new)
                ending = _train(prepared, scheduler, options, progress, logger, lost)
                scheduler.read_running()
        finally:
            if logger is not None:
                logger.sync(scheduler.state)
                tracking = logger.close()
        _show_skipped_failures(scheduler, console)
        if ending == "complete":
            _delete_other_weights(scheduler)
            complete_baselines(prepared, console)
            tracking = tracking or _publish(uri, prepared, options, console)
    return SearchResult(
        name=store.name,
        storage=prepared.storage,
        wanted=len(scheduler.state.seed_runs) + scheduler.remaining,
        done=len(scheduler.state.seed_runs),
        trained=progress.done - progress.stored,
        reused=progress.stored,
        skipped=scheduler.skipped,
        failed=progress.failed,
        to_test=len(scheduler.untested) if scheduler.decided else 0,
        ending=ending,
        tracking=tracking,
        rule=study.rule,
        seeds=study.seeds,
        configs=prepared.configs,
    )


def _show_plan(
    prepared: PreparedStudy,
    scheduler: Scheduler,
    options: RunOptions,
    console: Console,
    *,
    new: bool,
) -> None:
    """Print the notes; of a new study also its space, its seed runs and their time here."""
    for note in prepared.notes:
        console.print(note, markup=False, soft_wrap=True)
    if console.quiet or not new:
        return
    study = prepared.study
    size = f"{counted(prepared.configs, 'configuration')} x {counted(study.seeds, 'seed')}"
    if options.address is None:
        time = estimate(prepared, scheduler, options.cpus_per_trial, list)
        size += f", about {duration(time.seconds)} on this machine"
        if (time.seconds or 0) > LONG:
            size += "; fewer --configs or --seeds take less"
    if study.space.note:
        console.print(f"Search space: {study.space.note}", markup=False, soft_wrap=True)
    console.print(size, markup=False, soft_wrap=True)


def _show_skipped_failures(scheduler: Scheduler, console: Console) -> None:
    if count := scheduler.skipped_failures:
        failures = counted(count, "failed seed run")
        console.print(f"The race leaves out {failures}. Add --race off to train all.")


def _publish(
    uri: str | None, prepared: PreparedStudy, options: RunOptions, console: Console
) -> str | None:
    """Write the report and the winner to MLflow, if it is on; return the reason of a failure."""
    if uri is None:
        return None
    from sclsearch.reports.page import PageOptions

    study, storage = prepared.study, prepared.storage
    found = report(storage, prepared.store.name, study.rule, study.seeds, prepared.configs)
    try:
        # Anyone may read a shared server: the page there has no texts of the task.
        page = PageOptions(texts=False)
        done = publish(uri, found, storage, page, registered_name=options.register)
    except Exception as error:
        return failure_reason(error)
    if done.warning is not None:
        console.print(done.warning, style="yellow", markup=False, soft_wrap=True)
    if done.registered is not None:
        console.print(f"Registered in MLflow: {done.registered}", markup=False, soft_wrap=True)
    return None


def _delete_other_weights(scheduler: Scheduler) -> None:
    """Delete weights of earlier winners, unless the search covers only a part of the study."""
    state = scheduler.state
    known = (len(state.configurations), len(state.replicates))
    if scheduler.weights and state.best_seed is not None and scheduler.store.sizes() == known:
        scheduler.store.keep_weights(state.seed_runs[state.best_seed].key)


def _count_left(progress: Progress, scheduler: Scheduler) -> None:
    """Update the numbers of seed runs that the progress display uses."""
    progress.skipped = progress.wanted - progress.done - scheduler.remaining
    progress.repeating = len(scheduler.to_repeat) if scheduler.decided else 0


LONG = 600.0
"""Estimated seconds above which the start of a search says how to shorten it."""


def _show_step(console: Console, step: str) -> None:
    console.print(f"{step} …", style="dim", markup=False, soft_wrap=True)


def complete_baselines(prepared: PreparedStudy, console: Console) -> None:
    """Evaluate the baselines on replicates that lack them, and store the results."""
    from sclsearch.encoders.load import load_encoder
    from sclsearch.training.baselines import baselines
    from sclsearch.training.device import is_out_of_memory

    study, store = prepared.study, prepared.store
    stored = store.baselines()
    missing = {n: splits for n, splits in prepared.splits.items() if n not in stored}
    if not missing:
        return
    try:
        tokens = tokenized(study, missing.values())[study.lengths()[-1]]
        encoder = load_encoder(study.model, study.model_name)
        gpu = study.numerics.startswith("cuda")
        found = baselines(study.data, tokens, missing, encoder, gpu=gpu)
    except Exception as error:  # a search does not depend on its baselines
        if not isinstance(error, SclsearchError) and not is_out_of_memory(error):
            raise
        console.print(f"Without baselines: {error}", markup=False, soft_wrap=True)
        return
    store.save_baselines({**stored, **found})


def free_slots_warning(slots: int, concurrency: int, missing: int) -> str:
    """Return a warning if a cluster has room for more seed runs than can run at a time."""
    most = min(concurrency, missing)
    remedy = "Use a smaller one." if missing <= concurrency else "Raise --concurrency."
    return f"The cluster has room for {slots} seed runs, but at most {most} run at a time. {remedy}"


def _train(
    prepared: PreparedStudy,
    scheduler: Scheduler,
    options: RunOptions,
    progress: Progress,
    logger: MLflowLogger | None,
    lost: Event,
) -> Ending:
    with restored_signal_handlers():
        with held_ctrl_c():
            from sclsearch.ray_backend import startup, tuner
            from sclsearch.ray_backend.worker import worker_context
            from sclsearch.study.resources import gpus_each

        _show_step(progress.console, "Tokenizing")
        gpus = gpus_each(options.gpus_per_trial, prepared.study.numerics)
        context = worker_context(
            prepared, options.cpus_per_trial, gpus, graphs=options.cuda_graphs == "auto"
        )
        cpus, joined = options.cpus_per_trial, options.address is not None
        _show_step(
            progress.console, f"Joining Ray at {options.address}" if joined else "Starting Ray"
        )
        with startup.started_ray(options.address) as scratch:
            concurrency = startup.at_a_time(options.concurrency, cpus, gpus, joined=joined)
            scheduler.widen(concurrency)
            if joined:
                slots = startup.fitting(cpus, gpus)
                progress.no_room = not slots
                missing = scheduler.remaining
                if slots > min(concurrency, missing):
                    progress.console.print(
                        free_slots_warning(slots, concurrency, missing), soft_wrap=True
                    )

            begun = time.monotonic()

            def tick(finished: Sequence[float], running: Sequence[float]) -> None:
                if time.monotonic() - begun > OPENING * (options.time_budget or math.inf):
                    scheduler.stop_opening()
                _count_left(progress, scheduler)
                progress.tick(finished, running)
                if logger is not None:
                    logger.sync(scheduler.state, ended=False)
                if lost.is_set():
                    raise lost_to_another(prepared.store.folder)

            progress.start()
            try:
                return tuner.fit(
                    scheduler,
                    context,
                    options,
                    scratch=scratch,
                    gpus=gpus,
                    concurrency=concurrency,
                    tick=tick,
                    stopping=partial(_show_step, progress.console, STOPPING),
                )
            finally:
                _count_left(progress, scheduler)
                progress.stop()
