"""Cost of the driver by the size of a search, and the timeline of a short command.

    python -m benchmarks.scale [SEED RUNS] [--race] [--s3]

The first table has one search with 1,000 seed runs at a time, ten seeds per configuration, MLflow
on SQLite and workers that train nothing. One process stands for all workers, because a thousand do
not fit on one machine: driver, Ray Tune and store are real. Below it stands Ray Tune with
OptunaSearch and function trainables, with the same workers. The second table is a short
`sclsearch train` with one seed run at a time, and the same command again. `--s3` prints one row
alone: that of a search on an S3 server of this machine, which answers 30 ms late.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.machine import header, markdown, peak_memory
from sclsearch.search.callbacks import Callback
from sclsearch.search.prepare import prepare_study
from sclsearch.store.runs import RunStore, SeedRun
from sclsearch.study.spec import RunOptions, StudySpec

AT_ONCE, SEEDS = 1000, 10
AT_WORK = 32
"""Threads of the process that stands for all workers."""
COLUMNS = ("search", "stored", "seed runs a second", "driver's ms", "gained MB")
SCORED = 500
"""Validation rows, and test rows, of a stored result of the usual size."""
MARKS = (1_000, 5_000, 10_000, 25_000, 50_000)
MOST_TRIALS = 5_000
"""Trials of OptunaSearch, whose cost grows with each."""
LATE, PORT = 0.03, 9371
"""Seconds that the S3 server waits with each answer, and its port."""


def worker_process(context: Path | None) -> Any:
    """Return a Ray actor that stands for all workers: it stores results of the usual size."""
    import ray

    class Workers:
        def __init__(self) -> None:
            self.configs: dict[int, Mapping[str, Any]] = {}

        def reset(self, worker: int, config: Mapping[str, Any]) -> bool:
            self.configs[worker] = config
            return True

        def train(self, worker: int) -> dict[str, Any]:
            config = self.configs[worker]
            found = {"score": random.random()} if context is None else no_training(config, context)
            ended = {"done": True, "training_iteration": 1, "node_ip": "", "time_total_s": 0.0}
            return {**found, **ended}

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return ray.remote(num_cpus=0, max_concurrency=AT_WORK)(Workers).remote()


def no_training(config: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Store a result, and return it as a worker reports it."""
    from sclsearch.ray_backend.worker import load_context

    context, replicate = load_context(file), config["replicate"]
    spec = context.study.seed_run_spec(
        json.loads(config["fields"]), replicate, context.splits[replicate]
    )
    right = int(spec.key[:8], 16) % SCORED
    counts = {"confusion": [[right, SCORED - right], [0, 0]]}
    run = SeedRun(
        key=spec.key,
        identity=spec.identity,
        origin={**context.origin, "configuration": config["configuration"], "replicate": replicate},
        evaluations=({"epoch": 1.0, "update": 9, "loss": {"ce": 0.7}, "validation": counts},) * 10,
        test=counts,
        predictions={"validation": [0.0] * SCORED, "test": [1.0] * SCORED},
    )
    RunStore(context.storage).put(run)
    return {"key": spec.key, "run": replace(run, predictions={})}


class OneProcess:
    """Ray's actor manager with `worker_process` in place of a process for each actor.

    Like Ray's it waits for all tasks in random order, and handles one at a time.
    """

    context: Path | None = None

    def __init__(self, **_: Any) -> None:
        self.workers = worker_process(self.context)
        self.pending: list[Any] = []
        self.tasks: dict[Any, tuple[Any, Any]] = {}
        self._live_actors_to_ray_actors_resources: dict[Any, tuple[Any, None]] = {}
        self.stopped: list[Any] = []
        self.added = 0

    def add_actor(self, kwargs: Mapping[str, Any], **callbacks: Any) -> Any:
        import ray
        from ray.air.execution._internal.tracked_actor import TrackedActor

        self.added += 1
        names = ("on_start", "on_stop", "on_error")
        actor = TrackedActor(self.added, **{name: callbacks[name] for name in names})
        ray.get(self.workers.reset.remote(self.added, kwargs["config"]))
        self.pending.append(actor)
        return actor

    def schedule_actor_task(
        self, tracked_actor: Any, method_name: str, args: Any = (), on_result: Any = None, **_: Any
    ) -> Any:
        if method_name != "stop":
            method = getattr(self.workers, method_name)
            task = method.remote(tracked_actor.actor_id, *args[:1])
            self.tasks[task] = tracked_actor, on_result

    def next(self, timeout: float | None = None) -> bool:
        import ray

        for actor in self.stopped:
            if actor._on_stop is not None:
                actor._on_stop(actor)
        self.stopped.clear()
        if self.pending:
            actor = self.pending.pop(0)
            handle = SimpleNamespace(get_auto_filled_metrics=SimpleNamespace(remote=lambda **_: {}))
            self._live_actors_to_ray_actors_resources[actor] = handle, None
            actor._on_start(actor)
            return True
        tasks = list(self.tasks)
        random.shuffle(tasks)
        ready, _ = ray.wait(tasks, timeout=timeout) if tasks else ([], [])
        for task in ready:
            actor, on_result = self.tasks.pop(task)
            on_result(actor, ray.get(task))
        return bool(ready)

    def remove_actor(self, tracked_actor: Any, **_: Any) -> bool:
        if tracked_actor in self.pending:
            self.pending.remove(tracked_actor)
            return False
        self._live_actors_to_ray_actors_resources.pop(tracked_actor)
        self.stopped.append(tracked_actor)
        return True

    def is_actor_started(self, tracked_actor: Any) -> bool:
        return tracked_actor in self._live_actors_to_ray_actors_resources

    def is_actor_failed(self, *_: Any) -> bool:
        return False

    def get_live_actors_resources(self) -> dict[str, float]:
        return {}

    def clear_actor_task_futures(self, tracked_actor: Any) -> None:
        """Do nothing: no task of an ended actor is left."""

    def cleanup(self) -> None:
        """Do nothing: the workers end with Ray."""

    @property
    def num_live_actors(self) -> int:
        return len(self._live_actors_to_ray_actors_resources)

    @property
    def num_pending_actors(self) -> int:
        return len(self.pending)

    @property
    def num_total_actors(self) -> int:
        return self.num_live_actors + self.num_pending_actors

    @property
    def num_actor_tasks(self) -> int:
        return len(self.tasks)


class Marks(Callback):
    """Times and memory of the driver when as many seed runs as a mark have finished."""

    def __init__(self) -> None:
        self.finished = 0
        self.at: dict[int, tuple[float, float, float]] = {}

    def on_seed_run(self, *_: Any, **__: Any) -> None:
        self.finished += 1
        if self.finished == 1 or self.finished in MARKS:
            self.at[self.finished] = time.monotonic(), time.process_time(), peak_memory()

    def rows(self) -> Iterator[list[str]]:
        """Yield the number of stored seed runs, and the costs of those since the last row."""
        for before, mark in pairwise(self.at):
            (begun, worked, _), (ended, done, memory) = self.at[before], self.at[mark]
            runs = mark - before
            yield [
                f"{mark:,}",
                f"{runs / (ended - begun):.0f}",
                f"{1000 * (done - worked) / runs:.1f}",
                f"{memory - self.at[1][2]:.0f}",
            ]


def search_cost(
    seed_runs: int, storage: str, tracking: str | None, *, race: bool
) -> tuple[list[list[str]], float]:
    """Return the driver's cost by seed runs that are stored, and the seconds to resume."""
    from ray.tune.execution import tune_controller

    from sclsearch.ray_backend import tuner
    from sclsearch.ray_backend.start import started_ray
    from sclsearch.search.run import worker_context
    from sclsearch.tracking.logger import MLflowLogger
    from sclsearch.tracking.server import find_tracking_uri

    tune_controller.RayActorManager = OneProcess
    spec = StudySpec(task="demo", model="minilm", train_size=16)
    options = RunOptions(
        storage=storage,
        tracking=tracking,
        configs=seed_runs // SEEDS,
        seeds=SEEDS,
        race=None if race else "off",
        gpus_per_trial=0,
    )
    marks = Marks()
    with started_ray(None) as scratch:
        OneProcess.context = scratch / "context"
        scheduler = replace(prepare_study(spec, options).begin(), callbacks=[marks])
        uri = find_tracking_uri(options.tracking, scheduler.storage)
        logger = MLflowLogger(str(uri), scheduler.storage)
        tuner.fit(
            scheduler,
            worker_context(scheduler),
            scratch=scratch,
            gpus=0,
            concurrency=AT_ONCE,
            tick=lambda *_: logger.sync(scheduler.state, ended=False),
            stopping=lambda: None,
        )
        logger.close(0)
    begun = time.monotonic()
    prepare_study(spec, options).refill()
    return list(marks.rows()), time.monotonic() - begun


def optuna_search_cost(trials: int) -> list[list[str]]:
    """Return the cost of Ray Tune with OptunaSearch on the same workers."""
    from optuna.distributions import FloatDistribution
    from ray import tune
    from ray.tune.execution import tune_controller
    from ray.tune.search.optuna import OptunaSearch

    from sclsearch.ray_backend.start import started_ray

    class Count(tune.Callback):  # type: ignore[misc]
        def on_trial_complete(self, **_: Any) -> None:
            marks.on_seed_run()

    marks = Marks()
    tune_controller.RayActorManager = OneProcess
    names = ("learning_rate", "tau", "lam", "epochs")
    space = {name: FloatDistribution(1e-5, 1.0, log=True) for name in names}
    with started_ray(None) as scratch:
        tune.Tuner(
            _nothing,
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(space, metric="score", mode="max"),
                num_samples=trials,
                max_concurrent_trials=AT_ONCE,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=str(scratch), verbose=0, callbacks=[Count()]),
        ).fit()
    return list(marks.rows())


def _nothing(config: Mapping[str, Any]) -> None:
    """Train nothing; the stand-in does not call it."""


def in_new_process(cost: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return the result of a function that ran in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(cost, *arguments, **options).result()


def search_tables(seed_runs: int, *, race: bool) -> Iterator[str]:
    """Yield the driver's cost by the size of a search, and that of Ray Tune with OptunaSearch."""
    with tempfile.TemporaryDirectory() as storage:
        rows, resumed = in_new_process(search_cost, seed_runs, storage, None, race=race)
    theirs = in_new_process(optuna_search_cost, min(seed_runs, MOST_TRIALS))
    rows = [["sclsearch", *row] for row in rows] + [["OptunaSearch", *row] for row in theirs]
    yield from markdown(COLUMNS, rows)
    yield f"\nThe search of {seed_runs:,} seed runs resumes in {resumed:.0f} s."


def late_server() -> None:
    """Serve S3 on this machine; every answer is `LATE`."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, run_simple

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps connections

        def log(self, *_: object) -> None:
            """Print nothing."""

    def answer(*request: Any) -> Any:
        time.sleep(LATE)
        return server(*request)

    server = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", PORT, answer, threaded=True, request_handler=Handler)


def object_store_table(seed_runs: int, *, race: bool) -> Iterator[str]:
    """Yield the driver's cost on an object store."""
    import boto3

    given = {"ENDPOINT_URL": f"http://127.0.0.1:{PORT}", "DEFAULT_REGION": "us-east-1"}
    given |= {"ACCESS_KEY_ID": "any", "SECRET_ACCESS_KEY": "any"}
    os.environ.update({f"AWS_{name}": value for name, value in given.items()})
    server = get_context("spawn").Process(target=late_server, daemon=True)
    server.start()
    while server.is_alive() and socket.socket().connect_ex(("127.0.0.1", PORT)):
        time.sleep(0.1)
    boto3.client("s3").create_bucket(Bucket="scale")
    with tempfile.TemporaryDirectory() as folder:
        tracking = f"sqlite:///{folder}/mlflow.db"
        rows, resumed = in_new_process(
            search_cost, seed_runs, "s3://scale/storage", tracking, race=race
        )
    server.terminate()
    yield from markdown(COLUMNS, [["sclsearch, S3", *row] for row in rows])
    yield f"\nThe search of {seed_runs:,} seed runs resumes in {resumed:.0f} s."


def command_table() -> Iterator[str]:
    """Yield the timeline of a short command."""
    command = (
        "train --method ce --task demo --train-size 40 --set epochs=1 --model minilm --seeds 8"
    )
    with tempfile.TemporaryDirectory() as storage:
        words = [*command.split(), "--concurrency", "1", "--storage", storage]

        def seconds() -> float:
            begun = time.time()
            # Ray's workers import from the folder in which the command runs.
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
            run = [sys.executable, "-m", "sclsearch", *words]
            subprocess.run(run, env=environment, cwd=storage, capture_output=True, check=True)
            return time.time() - begun

        begun, whole = time.time(), seconds()
        runs = sorted(RunStore(storage).all(), key=lambda run: run.started)
        gaps = [after.started - before.started - before.seconds for before, after in pairwise(runs)]
        end = begun + whole - runs[-1].started - runs[-1].seconds
        found = [runs[0].started - begun, statistics.median(gaps), end, whole, seconds()]
    columns = ("first seed run, s", "between two, s", "after the last, s", "in all, s", "again, s")
    yield from markdown(columns, [[f"{value:.2f}" for value in found]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed_runs", nargs="?", type=int, default=MARKS[-1])
    parser.add_argument("--race", action="store_true")
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    if given.s3:
        tables = [[*object_store_table(given.seed_runs, race=given.race)]]
    else:
        tables = [[*search_tables(given.seed_runs, race=given.race)], [*command_table()]]
    print(header("ray"), *("\n".join(table) for table in tables), sep="\n\n")
