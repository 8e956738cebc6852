"""Runs a study from its options to its last seed run."""

from dataclasses import dataclass
from threading import Event

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.search.board import Board
from sclsearch.search.keeping import Keeper, delete_superfluous_weights
from sclsearch.search.machines import unusable_gpu
from sclsearch.search.options import Ending, How, What
from sclsearch.search.prepare import Prepared, check_new, prepare_study
from sclsearch.search.progress import Pace, Progress
from sclsearch.search.scribe import Scribe, not_shown, ready_tracking
from sclsearch.search.signals import held_ctrl_c, kept_signals, sigterm_as_ctrl_c
from sclsearch.search.tokenised import tokenised
from sclsearch.selection.rules import Rule
from sclsearch.store.driver import lost_to_another, sole_driver
from sclsearch.store.places import Storage


@dataclass(frozen=True, slots=True)
class Finished:
    """What a start of a study did.

    Attributes:
        name: The study's name.
        storage: Where it is stored.
        wanted: Seed runs that were asked for, without those that a race does not need by now.
        done: How many of them are finished.
        trained: How many of those this start trained.
        failed: How many of those that are done failed for good.
        ending: Why it ended.
        tracking: Why MLflow does not show everything; None if it does.
        rule: How seeds were counted; the study's record has that of its first start.
        seeds: Replicates of each configuration.
        configs: Configurations that were asked for.
    """

    name: str
    storage: Storage
    wanted: int
    done: int
    trained: int
    failed: int
    ending: Ending
    tracking: str | None
    rule: Rule
    seeds: int
    configs: int


def run(what: What, how: How, console: Console) -> Finished:
    """Runs a study until it is complete, stopped or out of time.

    Args:
        what: What is searched.
        how: How it is run.
        console: Where progress is shown.

    Raises:
        SclsearchError: Something that the user can mend.
        KeyboardInterrupt: Ctrl-C or SIGTERM came before the first seed run.
    """
    with sigterm_as_ctrl_c():
        return _run(prepare_study(what, how), how, console)


def run_prepared(prepared: Prepared, how: How, console: Console) -> Finished:
    """Runs a study that was prepared with the same `how`.

    Raises:
        SclsearchError: Something that the user can mend.
        KeyboardInterrupt: Ctrl-C or SIGTERM came before the first seed run.
    """
    with sigterm_as_ctrl_c():
        return _run(prepared, how, console)


def _run(prepared: Prepared, how: How, console: Console) -> Finished:
    study, store = prepared.study, prepared.store
    if how.gpus_per_trial is None and how.address is None and (warning := unusable_gpu()):
        console.print(warning, style="yellow", markup=False, soft_wrap=True)
    if store.record() is None:
        _say(console, f"Loading {study.model_name}")
    check_new(prepared, how)  # a study that cannot be trained leaves nothing behind
    uri = ready_tracking(prepared.storage, how)
    with sole_driver(store.folder, tell=console.print) as lost:
        prepared = prepared.begin()
        progress = Progress(console, prepared.configs * study.seeds)
        scribe = Scribe(prepared, uri) if uri else None
        board = prepared.board(
            retry_failed=how.retry_failed,
            race=how.race,
            listeners=[progress, *([scribe] if scribe else [])],
        )
        store.drop_half_weights()
        board.open_up()
        board.listeners = [*board.listeners, Keeper(board)]
        ending: Ending = "interrupted"
        if not board.complete:
            for note in prepared.record.origin["notes"]:
                console.print(note, markup=False, soft_wrap=True)
        try:
            ending = "complete" if board.complete else _train(prepared, board, how, progress, lost)
        finally:
            tracking = scribe.close(board) if scribe else not_shown(how)
        delete_superfluous_weights(board)
        if ending == "complete":
            complete_baselines(prepared, console)
    return Finished(
        name=store.name,
        storage=prepared.storage,
        wanted=progress.wanted - board.spared,
        done=len(board.done),
        trained=progress.done - progress.stored,
        failed=progress.failed,
        ending=ending,
        tracking=tracking,
        rule=study.rule,
        seeds=study.seeds,
        configs=prepared.configs,
    )


def _say(console: Console, what: str) -> None:
    console.print(f"{what} …", style="dim", markup=False, soft_wrap=True)


def complete_baselines(prepared: Prepared, console: Console) -> None:
    """Evaluate the baselines on replicates that lack them, and store the results."""
    from sclsearch.encoders.load import load_encoder
    from sclsearch.training.baselines import baselines

    study, store = prepared.study, prepared.store
    stored = store.baselines()
    missing = {n: parts for n, parts in prepared.parts.items() if n not in stored}
    if not missing:
        return
    try:
        tokens = tokenised(study, missing.values())[study.lengths()[-1]]
        encoder = load_encoder(study.model, study.model_name)
    except SclsearchError as error:
        console.print(f"Without baselines: {error}", markup=False, soft_wrap=True)
        return
    store.keep_baselines({**stored, **baselines(study.data, tokens, missing, encoder)})


def idle(slots: int, concurrency: int, missing: int) -> str:
    """Return the warning for a cluster with room for more seed runs than can run at a time."""
    most = min(concurrency, missing)
    cure = "Join a smaller one." if missing <= concurrency else "Give more --concurrency."
    return f"The cluster has room for {slots} seed runs, but at most {most} run at a time. {cure}"


def _train(prepared: Prepared, board: Board, how: How, progress: Progress, lost: Event) -> Ending:
    with kept_signals():
        with held_ctrl_c():
            from sclsearch.search import cluster, tuner
            from sclsearch.search.machines import gpus_each
            from sclsearch.search.preflight import check_nodes
            from sclsearch.search.trial import bench_of

        _say(progress.console, "Tokenizing")
        bench = bench_of(prepared, how.cpus_per_trial)
        gpus = gpus_each(how.gpus_per_trial, prepared.study.numerics)
        cpus, joined = how.cpus_per_trial, how.address is not None
        _say(progress.console, f"Joining Ray at {how.address}" if joined else "Starting Ray")
        with cluster.started_ray(how.address):
            concurrency = cluster.at_a_time(how.concurrency, cpus, gpus, joined=joined)
            board.widen(concurrency)
            if joined:
                check_nodes(prepared)
                slots = cluster.fitting(cpus, gpus)
                progress.waiting = not slots
                missing = progress.wanted - len(board.done) - board.spared
                if slots > min(concurrency, missing):
                    progress.console.print(idle(slots, concurrency, missing), soft_wrap=True)

            def tick(pace: Pace) -> None:
                progress.spared = board.spared
                progress.tick(pace)
                if lost.is_set():
                    raise lost_to_another(prepared.store.folder)

            progress.start()
            try:
                return tuner.fit(board, bench, how, gpus=gpus, concurrency=concurrency, tick=tick)
            finally:
                progress.stop()
