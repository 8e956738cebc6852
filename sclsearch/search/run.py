"""Execution of studies, from their options to the last seed run, and of one stored seed run."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import torch
from rich.console import Console

from sclsearch.canonical import canonical, counted
from sclsearch.encoders.load import load_encoder
from sclsearch.errors import SclsearchError, first_sentence
from sclsearch.ray_backend.signals import held_ctrl_c, restored_signal_handlers, sigterm_as_ctrl_c
from sclsearch.search.callbacks import Callback, notify
from sclsearch.search.prepare import check_new, gpus_each, prepare_study
from sclsearch.search.progress import Progress
from sclsearch.search.scheduler import Scheduler
from sclsearch.store.lock import lost_to_another, sole_driver
from sclsearch.store.runs import Evaluation, Failure, RunStore
from sclsearch.store.storage import Storage
from sclsearch.study.restore import restore_seed_run
from sclsearch.study.spec import CHECKPOINT_SECONDS, NO_TRACKING, Ending, RunOptions, StudySpec
from sclsearch.study.state import Running, SearchState, SeedRunTask
from sclsearch.tracking.logger import MLflowLogger
from sclsearch.tracking.publish import check_model_name, publish
from sclsearch.tracking.server import NO_DATABASE, find_tracking_uri, prepare_database
from sclsearch.tracking.writer import failure_reason
from sclsearch.training.baselines import baselines, texts_per_second
from sclsearch.training.device import backend_for, is_out_of_memory

if TYPE_CHECKING:
    from sclsearch.ray_backend.worker import WorkerContext

STOPPING = "Stopping the seed runs in training; Ctrl-C again stops at once"
OPENING = 0.45
"""Share of a time budget after which no configuration is added: the rest is for further seeds."""


def run(
    spec: StudySpec, options: RunOptions, console: Console, callbacks: Sequence[Callback] = ()
) -> Scheduler:
    """Run a study until it is complete, stopped or out of time; return it with its results."""
    with sigterm_as_ctrl_c():
        return run_prepared(prepare_study(spec, options), console, callbacks)


@sigterm_as_ctrl_c()
def run_prepared(
    scheduler: Scheduler, console: Console, callbacks: Sequence[Callback] = ()
) -> Scheduler:
    """Run a prepared study, and return it with its results.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM came before the first seed run.
    """
    from sclsearch.ray_backend.start import unusable_gpu

    study, store, options = scheduler.study, scheduler.store, scheduler.options
    if options.gpus_per_trial is None and options.address is None and (warning := unusable_gpu()):
        console.print(warning, style="yellow", markup=False, soft_wrap=True)
    new = store.record() is None
    if new:
        _show_step(console, f"Loading {study.model_name}")
    check_new(scheduler)  # a study that cannot train must write nothing
    uri = find_tracking_uri(options.tracking, scheduler.storage)
    check_model_name(options.register, uri, own_method=bool(study.method.digest))
    if uri is not None:
        prepare_database(uri, dry=True)
    with sole_driver(store.folder, show_message=console.print) as lost, ExitStack() as stack:
        progress = Progress(console, scheduler.configs * study.seeds)
        scheduler = replace(scheduler.begin(), callbacks=[progress, *callbacks])
        notify(callbacks, "on_study", scheduler.record)
        logger = _started_logger(uri, scheduler, stack)
        scheduler.refill()
        scheduler.tracking = None if options.tracking == NO_TRACKING else NO_DATABASE
        try:
            if not scheduler.complete:
                _show_plan(scheduler, console, new=new)
                scheduler.ending = "interrupted"
                scheduler.ending = _train(scheduler, progress, logger, lost)
                scheduler.read_running()
        finally:
            if logger is not None and not lost.is_set():
                logger.sync(scheduler.state)
                patient = scheduler.ending == "complete"
                scheduler.tracking = logger.close(patient=patient, end=False)
        _show_after_training(scheduler, console)
        if scheduler.ending == "complete":
            delete_other_weights(scheduler)
            scheduler.store.delete_checkpoints()
            # Fewer than asked for, if the time budget or the space was used up.
            configs = len(scheduler.state.configurations)
            scheduler.store.save_start(scheduler.band, configs, scheduler.study.seeds)
            complete_baselines(scheduler, console)
            if logger is not None:
                _publish(logger, scheduler, console)
    return scheduler


def _started_logger(uri: str | None, scheduler: Scheduler, stack: ExitStack) -> MLflowLogger | None:
    if uri is None:
        return None
    logger = MLflowLogger(uri, scheduler.storage)
    stack.callback(logger.writer.close)
    scheduler.callbacks = [*scheduler.callbacks, _LiveCurves(logger, scheduler.state)]
    logger.sync(scheduler.state, ended=False)  # starts its process
    return logger


class _LiveCurves(Callback):
    """Curves of running seed runs in MLflow."""

    def __init__(self, logger: MLflowLogger, state: SearchState) -> None:
        self._logger, self._state = logger, state

    def on_evaluation(self, task: SeedRunTask, evaluation: Evaluation) -> None:
        self._logger.show(self._state, task, evaluation)


def run_several(
    studies: Mapping[str, Scheduler], console: Console, callbacks: Sequence[Callback] = ()
) -> Iterator[tuple[str, Scheduler | SclsearchError]]:
    """Run studies in turn; yield the name of each with the study or its error.

    An error ends only its own search. An interruption also ends those that follow. Each study may
    use an equal share of the time that is left of the time budget.
    """
    budget = next(iter(studies.values())).options.time_budget
    deadline = None if budget is None else time.monotonic() + budget
    advised = False
    for position, (name, one) in enumerate(studies.items()):
        left = len(studies) - position
        console.print(f"{name} ({position + 1} of {len(studies)})", style="bold", markup=False)
        share = None if deadline is None else max(deadline - time.monotonic(), 0.0) / left
        # The advice is the same for every study; a search that trains nothing does not print it.
        advice = () if advised else one.advice
        options = replace(one.options, time_budget=share)
        try:
            done = run_prepared(replace(one, options=options, advice=advice), console, callbacks)
        except SclsearchError as error:
            yield name, error
            continue
        advised = advised or done.trained > 0
        yield name, done
        if done.ending == "interrupted":
            return


def _show_plan(scheduler: Scheduler, console: Console, *, new: bool) -> None:
    """Print the notes and, for a new study, its space and its size."""
    for note in scheduler.notes:
        console.print(note, markup=False, soft_wrap=True)
    if console.quiet or not new:
        return
    study = scheduler.study
    size = f"{counted(scheduler.configs, 'configuration')} x {counted(study.seeds, 'seed')}"
    if study.space.note:
        console.print(f"Search space: {study.space.note}", markup=False, soft_wrap=True)
    console.print(size, markup=False, soft_wrap=True)


def _show_after_training(scheduler: Scheduler, console: Console) -> None:
    if count := scheduler.skipped_failures:
        failures = counted(count, "failed seed run")
        console.print(f"The race skips {failures}. Add --race off to train all.")
    if scheduler.trained and scheduler.ending == "complete":
        _show_step(console, "Evaluating baselines, writing reports")


def _publish(logger: MLflowLogger, scheduler: Scheduler, console: Console) -> None:
    """Write the report and the winner to MLflow, if it answers; keep the reason of a failure."""
    found, name = scheduler.report(), scheduler.options.register
    missing = [scheduler.tracking, name and f"the winner is not registered as {name}"]
    try:
        if logger.answers:
            registered, warning = publish(logger.writer, found, registered_name=name)
            missing[1:] = []
            if warning is not None:
                console.print(warning, style="yellow", markup=False, soft_wrap=True)
            if registered is not None:
                text = f"Registered in MLflow: {registered}"
                console.print(text, markup=False, soft_wrap=True)
    except Exception as error:
        missing.insert(1, failure_reason(error))
    scheduler.tracking = "; ".join(filter(None, missing)) or None


def delete_other_weights(scheduler: Scheduler) -> None:
    """Delete weights of earlier winners, unless the search covers only a part of the study."""
    state, store = scheduler.state, scheduler.store
    known = (len(state.configurations), len(state.replicates))
    scheduler.stop_retries()
    with suppress(OSError, SclsearchError):  # a clean-up never fails a search
        if scheduler.weights and state.best_seed is not None and store.sizes() == known:
            store.delete_other_weights(state.seed_runs[state.best_seed].key)


def _count_left(progress: Progress, scheduler: Scheduler) -> None:
    progress.skipped = progress.wanted - progress.done - scheduler.remaining
    progress.repeating = len(scheduler.to_repeat) if scheduler.decided else 0


def _show_step(console: Console, step: str) -> None:
    console.print(f"{step} …", style="dim", markup=False, soft_wrap=True)


def complete_baselines(scheduler: Scheduler, console: Console) -> None:
    """Evaluate the baselines on replicates that lack them, and store the results."""
    study, store = scheduler.study, scheduler.store
    try:
        known = store.baselines()
        stored, speed = known.replicates, known.texts_per_second
        missing = {n: splits for n, splits in scheduler.splits.items() if n not in stored}
        if not missing:
            return
        tokens = study.tokenized(missing.values())[study.lengths()[-1]]
        encoder = load_encoder(study.model, study.model_name)
        gpu = study.numerics.startswith("cuda")
        found = baselines(study.data, tokens, missing, encoder, study.metric, gpu=gpu)
        store.save_baselines({**stored, **found}, speed)
        if not speed:
            speed = texts_per_second(encoder, study.lengths()[-1])
            store.save_baselines({**stored, **found}, speed)
    except Exception as error:  # a search does not depend on its baselines
        if not isinstance(error, SclsearchError) and not is_out_of_memory(error):
            raise
        console.print(f"Baselines not evaluated: {error}", markup=False, soft_wrap=True)


def worker_context(scheduler: Scheduler) -> "WorkerContext":
    """Return the data that Ray passes to every trial.

    Ray shares arrays between workers. Texts are left out, because it would copy them.
    """
    from sclsearch.ray_backend.worker import WorkerContext, versions_here

    study, options = scheduler.study, scheduler.options
    source, every = study.paraphrases, options.checkpoint_every
    return WorkerContext(
        study=replace(
            study,
            data=replace(study.data, splits={}),
            paraphrases=source and replace(source, rows={}),
        ),
        name=scheduler.name,
        storage=scheduler.storage,
        tokens=study.tokenized(scheduler.splits.values()),
        splits=scheduler.splits,
        threads=options.cpus_per_trial,
        origin=scheduler.record.origin,
        versions=versions_here(),
        gpus=gpus_each(study, options),
        graphs=options.cuda_graphs == "auto",
        checkpoint_every=None if every == "off" else every or CHECKPOINT_SECONDS,
    )


def _train(
    scheduler: Scheduler, progress: Progress, logger: MLflowLogger | None, lost: Event
) -> Ending:
    options = scheduler.options
    with restored_signal_handlers():
        with held_ctrl_c():
            from sclsearch.ray_backend import start, tuner

        _show_step(progress.console, "Tokenizing")
        context = worker_context(scheduler)
        cpus, joined = options.cpus_per_trial, options.address is not None
        gpus = gpus_each(scheduler.study, options)
        _show_step(
            progress.console, f"Joining Ray at {options.address}" if joined else "Starting Ray"
        )
        with start.started_ray(options.address) as scratch:
            if (accelerator := options.accelerator) is not None:
                start.check_accelerator(accelerator)
            concurrency = start.at_a_time(
                options.concurrency, cpus, gpus, accelerator, joined=joined
            )
            if joined:
                progress.no_room = not start.fitting(cpus, gpus, accelerator)

            begun = time.monotonic()

            def tick(finished: Sequence[float], running: Sequence[Running]) -> None:
                if time.monotonic() - begun > OPENING * (options.time_budget or math.inf):
                    scheduler.stop_opening()
                _count_left(progress, scheduler)
                progress.tick(finished, running)
                if logger is not None:
                    logger.sync(scheduler.state, ended=False)
                if lost.is_set():
                    raise lost_to_another(scheduler.store.folder)

            progress.start()
            try:
                return tuner.fit(
                    scheduler,
                    context,
                    scratch=scratch,
                    gpus=gpus,
                    concurrency=concurrency,
                    tick=tick,
                    stopping=partial(_show_step, progress.console, STOPPING),
                )
            finally:
                _count_left(progress, scheduler)
                progress.stop()


COMPARED = ("stages", "evaluations", "kept", "test", "predictions")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a stored seed run with its repetition."""

    key: str
    differing: tuple[str, ...]  # of COMPARED
    seconds: float  # that the repetition took
    before: Failure | None  # None if the stored seed run succeeded
    now: Failure | None

    @property
    def same(self) -> bool:
        return not self.differing and self.before == self.now


def rerun(
    storage: Storage, start: str, data_dir: Path | None = None, method: str | None = None
) -> Comparison:
    """Train a stored seed run again, with the same number of threads, and compare every result.

    Args:
        storage: The storage of the seed run.
        start: The first characters of the key.
        data_dir: Folder of the task's files, if they moved.
        method: `FILE.py:CLASS`, required if the seed run's method is in a file: its hash must be
            the stored one.

    Raises:
        SclsearchError: The seed run does not exist, or its inputs have changed. Or it was trained
            on a GPU and this machine has none, or memory is too small.
    """
    from sclsearch.ray_backend.worker import WorkerContext, attempt

    runs = RunStore(storage)
    run = runs.get(runs.find(start))
    if run is None:
        raise SclsearchError(f"{start}: the seed run was deleted just now.")
    study, seed_run_spec = restore_seed_run(run, data_dir, method)
    backend_for(study.numerics)  # raises if the seed run needs a GPU and there is none
    threads = int(run.environment.get("threads", 1))
    torch.set_num_threads(threads)
    context = WorkerContext(
        study=study,
        name=str(run.origin["study"]),
        storage=storage,
        tokens=study.tokenized([seed_run_spec.splits]),
        splits={},
        threads=threads,
        origin=run.origin,
    )
    try:
        number = int(run.origin["configuration"])
        again, _ = attempt(seed_run_spec, context, number, test=not run.untested)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise SclsearchError(
            f"{run.key[:12]}: out of memory: {first_sentence(str(error))}. Use a machine with more "
            "memory, or one without other work."
        ) from error
    differing = [
        name
        for name in COMPARED
        if canonical(getattr(run, name)) != canonical(getattr(again, name))
    ]
    return Comparison(run.key, tuple(differing), again.seconds, run.failure, again.failure)
