"""Preparation of a study before it runs: its records, its store and its replicates."""

import shlex
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.methods import error_text
from sclsearch.protocols.base import Rows, Splits
from sclsearch.ray_backend.signals import held_ctrl_c
from sclsearch.search.scheduler import open_configurations_for
from sclsearch.selection.race import Band, Race
from sclsearch.store.records import StudyRecord
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import check_can_be_written, storage_folder
from sclsearch.store.studies import StudyStore
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.resolve import resolve
from sclsearch.study.resources import CLUSTER_SLOTS, gpus_each, mps_advice
from sclsearch.study.restore import spec_record
from sclsearch.study.spec import (
    MOST_CONFIGS,
    RunOptions,
    StudySpec,
    TestScores,
)
from sclsearch.study.study import Study
from sclsearch.study.tokenized import paraphrased, reading_notes, tokenized
from sclsearch.tasks.custom import as_options
from sclsearch.tasks.metrics import MAXIMUM
from sclsearch.training.cost import row_costs

CHECKED_ROWS = 16
"""Most rows of a split that the check of a custom method reads."""
FEW_TEST_ROWS = 1_000
"""Most test rows with which `--test-scores auto` tests every seed run."""
RACED_CONFIGS, RACED_SEEDS = 6, 5
"""Configurations and seeds from which on a search races by default."""
MEAN_BAND, TOP_BAND = 2.5, 3.5
"""Default band of the race: under `mean`, and under a rule that counts the best k seeds."""
CHEAP_TEST = 0.25
"""Highest share of the time of a seed run for which `auto` tests every one."""


def prepare_study(spec: StudySpec, options: RunOptions, *, dry: bool = False) -> PreparedStudy:
    """Return the prepared study; write only the storage folder, and nothing if `dry`."""
    study = resolve(spec, options)
    configs = _configs(study, options)
    band = _band(study, options, configs)
    gpus = gpus_each(options.gpus_per_trial, study.numerics)
    if dry:
        check_can_be_written(options.storage)
    storage = storage_folder(options.storage, make=not dry)
    store = StudyStore(storage, options.study or study.default_name())
    numbers = range(study.seeds)
    same = study.unlabeled is None and study.protocol.same_rows(study.size)
    splits = (
        dict.fromkeys(numbers, study.splits(0)) if same else {n: study.splits(n) for n in numbers}
    )
    if spec.paraphrases is not None:
        _check_paraphrases(spec, options, study, splits)
    replicates = tuple(study.replicate(n, splits[n]) for n in numbers)
    room = CLUSTER_SLOTS if options.address is not None else _room_here(study, options)
    asked = options.concurrency or room
    new = store.record() is None
    record = StudyRecord(
        name=store.name,
        identity=study.identity,
        training=study.seed_run_spec({}, 0, splits[0]).shared_identity,
        origin={
            **spec_record(spec, study, options.data_dir),
            "study": store.name,
            "notes": [*study.notes, *(reading_notes(study, splits[0]) if new else ())],
            "training_rows": _training_rows(study, splits[0]),
        },
        open_configurations=open_configurations_for(
            asked, Race(study.rule.score, MAXIMUM, study.seeds, band).stages[0]
        ),
        created=time.time(),
    )
    return PreparedStudy(
        study=study,
        record=store.check(record, replicates),
        storage=storage,
        store=store,
        runs=RunStore(storage),
        replicates=replicates,
        splits=splits,
        configs=configs,
        at_once=min(asked, room) if options.address is None else asked,
        band=band,
        tests_all=configs == 1 or _tests_all(study, options.test_scores, splits[0]),
        advice=mps_advice(gpus, min(asked, room)) if options.address is None else (),
    )


def _tests_all(study: Study, asked: TestScores, splits: Splits) -> bool:
    """Return whether every seed run gets a test score, or only those of the winner."""
    if asked != "auto" or len(splits.test.index) <= FEW_TEST_ROWS:
        return asked != "winner" or not len(splits.test.index)
    training, test = row_costs(study.seed_run_spec({}, 0, splits))
    return test <= CHEAP_TEST * (training + test)


def _band(study: Study, options: RunOptions, configs: int) -> Band:
    """Return the band of the race; None without a race."""
    top = study.rule.score
    if options.race == "off":
        return None
    if options.race is None:
        usual = configs >= RACED_CONFIGS and study.seeds >= RACED_SEEDS and top.k != 1
        return (MEAN_BAND if top.k is None else TOP_BAND) if usual else None
    if len(Race(top, MAXIMUM, study.seeds, options.race).stages) == 1:
        raise SclsearchError(
            f"--race: needs more seeds per configuration, got {study.seeds}. Leave it out, or pass "
            "more --seeds."
        )
    return options.race


def _training_rows(study: Study, splits: Splits) -> list[int | None]:
    """Return the number of training rows, and that of the smallest class; None in regression."""
    labels = splits.train.labels(study.data)
    if study.data.task.regression:
        return [len(labels), None]
    counts = np.bincount(labels, minlength=len(study.data.task.labels))
    return [len(labels), int(counts.min())]


def check_new(prepared: PreparedStudy, options: RunOptions) -> None:
    """Check model, custom method, tokenizer and resources of a study that is not stored yet.

    Raises:
        SclsearchError: This machine cannot train any seed run of the study.
    """
    from sclsearch.encoders.load import load_encoder, load_tokenizer

    if prepared.store.record() is not None:
        return
    study = prepared.study
    encoder = load_encoder(study.model, study.model_name)
    study.check(encoder)
    if study.method.digest:
        check_custom_method(study, prepared.splits[0])
    last = max(load_tokenizer(study.model).get_vocab().values(), default=0)
    if last >= len(encoder.embeddings):
        raise SclsearchError(
            f"--model {study.model_name}: tokenizer.json has token {last}, but the model has "
            f"embeddings of {len(encoder.embeddings)} tokens. Take both files from one checkpoint."
        )
    if options.address is None:
        with held_ctrl_c():
            from sclsearch.ray_backend.startup import check_room_here
        check_room_here(options.cpus_per_trial, gpus_each(options.gpus_per_trial, study.numerics))
        _check_speed(study)


def _check_speed(study: Study) -> None:
    from sclsearch.training.device import backend_for, fast_bf16

    if study.numerics == "cpu-bf16" and not fast_bf16(backend_for(study.numerics).device):
        raise SclsearchError(
            "--precision bf16: must be on a CPU with AVX512-BF16 or AMX; without them it was 14 "
            "times slower than fp32. Pass fp32, or leave it out."
        )


def check_custom_method(study: Study, splits: Splits) -> None:
    """Train a custom method for one update on a few rows on the CPU, and discard the result.

    Raises:
        SclsearchError: The method raises an exception.
    """
    import torch

    from sclsearch.training.engine import train
    from sclsearch.training.evaluation import NonFiniteLossError
    from sclsearch.training.spec import TrainingData

    some = Splits(_few(splits.train), _few(splits.validation), _few(splits.test))
    values = next(iter(study.space.published), {})
    spec = replace(study.seed_run_spec(values, 0, some), max_updates=1, numerics="cpu-fp32")
    tokens = tokenized(study, [some])[spec.training.max_length]
    try:
        with torch.random.fork_rng():
            train(TrainingData(spec, tokens))
    except NonFiniteLossError:
        pass  # depends on values and rows, which differ between seed runs
    except SclsearchError:
        raise
    except Exception as error:
        raise SclsearchError(
            f"--method {study.method.place}: one update on {len(some.train.index)} rows failed: "
            f"{error_text(error, study.method).rstrip('.')}. Correct the method."
        ) from error


def _few(rows: Rows) -> Rows:
    return Rows(rows.split, rows.index[:: -(-len(rows.index) // CHECKED_ROWS) or 1])


def _check_paraphrases(
    spec: StudySpec, options: RunOptions, study: Study, splits: Mapping[int, Splits]
) -> None:
    """Raise SclsearchError if the paraphrase file lacks a text, before anything is written."""
    read = [rows.without_labels.index for rows in splits.values()]
    try:
        paraphrased(study, np.concatenate(read))
    except SclsearchError as error:
        # Replicate r draws subset r; replicates with fresh seeds draw other subsets.
        count = 1 + max(study.protocol.replicate(number).subset for number in splits)
        if study.protocol.joined and study.reads_paraphrases:
            needed = f"{error} The file must have those of {count} replicates."
            raise SclsearchError(needed) from error
        raise SclsearchError(
            f"{error} `sclsearch augment {_augmented(spec, options, study, count)} --backend …` "
            "writes those that are missing."
        ) from error


def _augmented(spec: StudySpec, options: RunOptions, study: Study, replicates: int) -> str:
    """Return the `augment` options that name the texts which the study reads."""
    given = {
        "--data-dir": options.data_dir,
        "--train-size": spec.train_size,
        "--shots": spec.shots,
        "--protocol": study.protocol.name,
        "--replicates": replicates,
        "--unlabeled": spec.unlabeled,
    }
    told = [(name, str(value)) for name, value in given.items() if value is not None]
    return shlex.join([*as_options(spec.task), *chain.from_iterable(told)])


def _room_here(study: Study, options: RunOptions) -> int:
    """Return the number of seed runs that fit on this machine, before Ray starts."""
    with held_ctrl_c():
        from sclsearch.ray_backend.startup import fitting_here

    room = fitting_here(options.cpus_per_trial, gpus_each(options.gpus_per_trial, study.numerics))
    return max(room, 1)


def _configs(study: Study, options: RunOptions) -> int:
    return min(options.configs or study.configs, study.space.size() or MOST_CONFIGS)
