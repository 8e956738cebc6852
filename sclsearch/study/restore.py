"""Conversion of a study's specification to a stored record, and back to train it again."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sclsearch.canonical import as_tuples, canonical
from sclsearch.errors import SclsearchError
from sclsearch.methods import find_method, find_recorded_method, is_own
from sclsearch.methods.fields import typed
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import StudyRecord
from sclsearch.study.resolve import resolve
from sclsearch.study.spec import RunOptions, StudySpec
from sclsearch.study.study import Study
from sclsearch.tasks import check_data_dir
from sclsearch.tasks.custom import CustomTask
from sclsearch.training.spec import SeedRunSpec

if TYPE_CHECKING:
    from sclsearch.methods.base import Method


def spec_record(spec: StudySpec, study: Study, options: RunOptions) -> dict[str, Any]:
    """Return the JSON record of a spec, from which `restore_spec` makes it again.

    It names the resolved method, model and protocol, and what reports print beside them.
    """
    own, data_dir = is_own(spec.sampler), options.data_dir
    return {
        "method": study.method.place,
        "task": spec.task
        if isinstance(spec.task, str)
        else {name: _plain(value) for name, value in asdict(spec.task).items()},
        "labels": list(study.data.task.labels),
        "pair": study.data.task.pair,
        "model": study.model_place,
        "protocol": study.protocol.name,
        "scale": study.protocol.scale,
        "folds": study.protocol.folds,
        "fresh": spec.fresh,
        "first_fresh": spec.first_fresh,
        "metric": spec.metric,
        "train_size": spec.train_size,
        "shots": spec.shots,
        "unlabeled": spec.unlabeled,
        "data_dir": data_dir and str(data_dir.resolve()),
        "source": study.data.source,
        "space": study.space.note,
        "space_option": _plain(spec.space),
        "rule": str(study.rule),
        # A restored configuration has every field set, but the user set none of them.
        "settings": {} if spec.restored else dict(spec.settings),
        "shown": list(spec.shown) if spec.restored else None,
        "paraphrases": spec.paraphrases and str(spec.paraphrases.resolve()),
        "precision": spec.precision,
        "sampler": _plain(Path(spec.sampler).expanduser()) if own else spec.sampler,
        "start_from": spec.start_from,
        "tracking": "none" if options.tracking == "none" else None,
        "checkpoint_every": options.checkpoint_every,
    }


def restore_spec(
    origin: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    method: "str | type[Method] | None" = None,
    fresh: int | None = None,
    first_fresh: int | None = None,
) -> StudySpec:
    """Return the spec of one configuration, from the stored origin of a seed run or a study.

    `fields` has every field of the method and of training. `method` is required if the origin names
    a code file. `fresh` and `first_fresh` are those of `StudySpec`.

    Raises:
        SclsearchError: A stored field is unknown or out of bounds.
    """
    method = origin["method"] if method is None else method
    if fields:
        typed(
            find_method(method).kind, fields, f"{origin.get('study', 'stored fields')}: damaged: "
        )
    return StudySpec(
        method=method,
        task=restore_task(origin["task"]),
        model=origin["model"],
        protocol=origin["protocol"],
        scale=origin.get("scale"),
        folds=origin.get("folds"),
        fresh=fresh,
        first_fresh=first_fresh,
        metric=origin.get("metric"),
        train_size=origin["train_size"],
        shots=origin["shots"],
        unlabeled=origin.get("unlabeled"),
        settings={name: as_tuples(value) for name, value in fields.items()},
        paraphrases=restore_path(origin.get("paraphrases")),
        precision=origin.get("precision", "auto"),
        searched=False,
        restored=bool(fields),
    )


def restore_method(
    origin: Mapping[str, Any], digest: str, given: "str | type[Method] | None", where: str
) -> "str | type[Method] | None":
    """Return `given` if it is the recorded custom method; None for a built-in method.

    `digest` is the recorded one of the method's file; empty for a method of sclsearch.
    """
    found = find_recorded_method(origin["method"], digest, given, where)
    return given if found.digest else None


def restore_study_spec(
    record: StudyRecord,
    fields: Mapping[str, Any],
    method: "str | type[Method] | None" = None,
    **replicates: Any,
) -> StudySpec:
    """Return the spec of one configuration of a stored study; see `restore_spec`."""
    digest = record.training.get("method_file", "")
    restored = restore_method(record.origin, digest, method, f"study {record.name}")
    return restore_spec(record.origin, fields, method=restored, **replicates)


def restore_seed_run(
    run: SeedRun, data_dir: Path | None = None, method: "str | type[Method] | None" = None
) -> tuple[Study, SeedRunSpec]:
    """Return the study and the specification of a stored seed run, with its data and encoder.

    `data_dir` is the folder of the task's files, if they moved.

    Raises:
        SclsearchError: Data, encoder or method are missing or have changed.
    """
    origin = run.origin
    digest = run.identity.get("method_file", "")
    restored = restore_method(origin, digest, method, f"seed run {run.key[:12]}")
    replicates = {name: origin.get(name) for name in ("fresh", "first_fresh")}
    spec = restore_spec(origin, run.identity["fields"], method=restored, **replicates)
    device, _, precision = run.identity["numerics"].partition("-")
    spec, gpus = replace(spec, precision=precision), float(device == "cuda")
    options = RunOptions(data_dir=restore_data_dir(origin, data_dir), gpus_per_trial=gpus)
    study = resolve(spec, options)
    seed_run_spec = study.seed_run_spec(spec.settings, int(origin["replicate"]))
    check_unchanged(run.key[:12], "the seed run", run.identity, seed_run_spec.identity)
    return study, seed_run_spec


def check_unchanged(
    where: str, thing: str, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raise SclsearchError if the inputs of a stored seed run or study have changed."""
    differing = [name for name in before if canonical(before[name]) != canonical(now.get(name))]
    if differing:
        raise SclsearchError(
            f"{where}: {', '.join(differing)} changed since {thing} was trained. Use the same "
            "data, model and version of sclsearch."
        )


def restore_data_dir(origin: Mapping[str, Any], given: Path | None) -> Path | None:
    """Return the data folder: the given one, or else the stored one."""
    check_data_dir(restore_task(origin["task"]), given)
    return given or restore_path(origin.get("data_dir"))


def restore_path(stored: str | None) -> Path | None:
    """Return the stored path, or None if there is none."""
    return Path(stored) if stored else None


def restore_task(stored: str | Mapping[str, Any]) -> str | CustomTask:
    """Return the task of an origin record."""
    try:
        return stored if isinstance(stored, str) else CustomTask(**stored)
    except TypeError as error:
        raise SclsearchError(f"stored task: {error}. Restore the record from a copy.") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.resolve())
    return list(value) if isinstance(value, tuple) else value
