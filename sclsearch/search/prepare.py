"""Preparation of a study before it runs: its records, its store and its replicates."""

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sclsearch.arguments import option_words
from sclsearch.canonical import canonical
from sclsearch.encoders.load import load_encoder, load_tokenizer
from sclsearch.errors import SclsearchError
from sclsearch.methods import error_text, find_method
from sclsearch.methods.base import share_alone
from sclsearch.protocols.base import Splits
from sclsearch.ray_backend.signals import held_ctrl_c
from sclsearch.search.scheduler import Scheduler
from sclsearch.selection.race import Band, Race, usual_band
from sclsearch.spaces.load import MOST_ALONE
from sclsearch.spaces.space import learning_rate_warning
from sclsearch.store.storage import storage_folder
from sclsearch.store.studies import StudyRecord, StudyStore
from sclsearch.study.resolve import resolve
from sclsearch.study.restore import spec_record
from sclsearch.study.spec import MOST_CONFIGS, RunOptions, StudySpec, TestScores
from sclsearch.study.study import Study
from sclsearch.tasks.custom import as_options
from sclsearch.tasks.metrics import MAXIMUM
from sclsearch.training.device import backend_for, fast_bf16
from sclsearch.training.engine import train
from sclsearch.training.evaluation import NonFiniteLossError
from sclsearch.training.spec import seed_run_costs

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

CHECKED_ROWS = 16
"""Most rows of a split that the check of a custom method reads."""
FEW_TEST_ROWS = 1_000
"""Most test rows with which `--test-scores auto` tests every seed run."""
FEW_CUT = 0.1
"""Share of truncated texts below which no note is needed."""
FEW_UNKNOWN = 0.05
"""Share of unknown tokens below which no note is needed."""
FEW_LABELS = 8
"""Training texts of a class up to which its name helps (`benchmarks/few.md`)."""
FAR = 10.0
"""Mean or standard deviation of scores above which a regression trains badly."""
NARROW = 0.1
"""Standard deviation of scores below which a regression trains badly."""
CHEAP_TEST = 0.25
"""Highest share of the time of a seed run for which `auto` tests every one."""


def prepare_study(spec: StudySpec, options: RunOptions, *, dry: bool = False) -> Scheduler:
    """Return the study, ready to run; write only the storage folder, and nothing if `dry`."""
    study = resolve(spec, options)
    configs = min(options.configs or study.configs, study.space.size() or MOST_CONFIGS)
    storage = storage_folder(options.storage, make=not dry, check=dry)
    store = StudyStore(storage, options.study or study.default_name())
    numbers = range(study.seeds)
    shared: dict[str, Splits] = {}
    splits = {}
    for number in numbers:
        drawn = study.splits(number)
        splits[number] = shared.setdefault(canonical(drawn.digests), drawn)
    if spec.paraphrases is not None:
        _check_paraphrases(spec, options, study, splits)
    replicates = tuple(study.replicate(n, splits[n]) for n in numbers)
    room, advice = _room(study, options)
    asked = options.concurrency or room
    budget = _budget(study, options, configs, splits[0])
    new = store.record() is None
    record = StudyRecord(
        name=store.name,
        identity=study.identity,
        training=study.seed_run_spec({}, 0, splits[0]).shared_identity,
        origin={
            **spec_record(spec, study, options),
            "study": store.name,
            "notes": [*study.notes, *(reading_notes(study, splits[0]) if new else ())],
            "training_rows": _training_rows(study, splits[0]),
        },
        created=time.time(),
    )
    return Scheduler(
        study=study,
        record=store.check(record, replicates),
        storage=storage,
        options=options,
        replicates=replicates,
        splits=splits,
        at_once=min(asked, room) if options.address is None else asked,
        advice=advice,
        dry=dry,
        **budget,
    )


def _budget(study: Study, options: RunOptions, configs: int, splits: Splits) -> dict[str, Any]:
    """Return the number of configurations, and what follows from it."""
    tests_all = configs == 1 or _tests_all(study, options.test_scores, splits)
    return {"configs": configs, "band": _band(study, options, configs), "tests_all": tests_all}


def _tests_all(study: Study, asked: TestScores, splits: Splits) -> bool:
    if asked != "auto" or len(splits.test.index) <= FEW_TEST_ROWS:
        return asked != "winner" or not len(splits.test.index)
    training, test = seed_run_costs(study.seed_run_spec({}, 0, splits))
    return test <= CHEAP_TEST * (training + test)


def _band(study: Study, options: RunOptions, configs: int) -> Band:
    if options.race == "off":
        return None
    if options.race is None:
        return usual_band(study.rule.score, configs, study.seeds)
    if len(Race(study.rule.score, MAXIMUM, study.seeds, options.race).stages) == 1:
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


def check_new(scheduler: Scheduler) -> None:
    """Check model, custom method, tokenizer and resources of a study that is not stored yet.

    Raises:
        SclsearchError: This machine cannot train any seed run of the study.
    """
    from sclsearch.ray_backend.start import check_accelerator, check_room_here, started_ray

    if scheduler.store.record() is not None:
        return
    study, options = scheduler.study, scheduler.options
    encoder = load_encoder(study.model, study.model_name)
    study.check(encoder)
    if study.method.digest:
        check_custom_method(study, scheduler.splits[0])
    last = max(load_tokenizer(study.model).get_vocab().values(), default=0)
    if last >= len(encoder.embeddings):
        raise SclsearchError(
            f"--model {study.model_name}: tokenizer.json has token {last}, but the model has "
            f"embeddings of {len(encoder.embeddings)} tokens. Take both files from one checkpoint."
        )
    if options.address is None:
        check_room_here(options.cpus_per_trial, gpus_each(study, options))
        if study.numerics == "cpu-bf16" and not fast_bf16(backend_for(study.numerics).device):
            raise SclsearchError(
                "--precision bf16: must be on a CPU with AVX512-BF16 or AMX; without them it was "
                "14 times slower than fp32. Pass fp32, or leave it out."
            )
    if options.accelerator is not None and not scheduler.dry:
        with started_ray(options.address):
            check_accelerator(options.accelerator)


def check_custom_method(study: Study, splits: Splits) -> None:
    """Train a custom method for one update on a few rows on the CPU, and discard the result.

    Raises:
        SclsearchError: The method raises an exception.
    """
    read = (splits.train, splits.validation, splits.test)
    first, second, third = (rows.some(CHECKED_ROWS) for rows in read)
    some = Splits(first, second, third)
    values = study.space.covering()[0]
    spec = replace(study.seed_run_spec(values, 0, some), max_updates=1, numerics="cpu-fp32")
    tokens = study.tokenized([some])[spec.training.max_length]
    try:
        with torch.random.fork_rng():
            train(spec, tokens)
    except NonFiniteLossError:
        pass  # depends on values and rows, which differ between seed runs
    except SclsearchError:
        raise
    except Exception as error:
        raise SclsearchError(
            f"--method {study.method.place}: one update on {len(some.train.index)} rows failed: "
            f"{error_text(error, study.method).rstrip('.')}. Correct the method."
        ) from error


def _check_paraphrases(
    spec: StudySpec, options: RunOptions, study: Study, splits: Mapping[int, Splits]
) -> None:
    """Raise SclsearchError if the paraphrase file lacks a text, before anything is written."""
    read = [rows.without_labels.index for rows in splits.values()]
    try:
        study.paraphrased(np.concatenate(read))
    except SclsearchError as error:
        # Replicate r draws subset r; replicates with fresh seeds draw other subsets.
        count = 1 + max(study.protocol.replicate(number).subset for number in splits)
        if study.protocol.joined and study.reads_paraphrases:
            needed = f"{error} The file must have those of {count} replicates."
            raise SclsearchError(needed) from error
        raise SclsearchError(
            f"{error} `python -m sclsearch.papers.augmentation "
            f"{_augmented(spec, options, study, count)} --backend …` writes those that are missing."
        ) from error


def _augmented(spec: StudySpec, options: RunOptions, study: Study, replicates: int) -> str:
    given = {
        "--data-dir": options.data_dir,
        "--train-size": spec.train_size,
        "--shots": spec.shots,
        "--protocol": study.protocol.name,
        "--seeds": replicates,
        "--unlabeled": spec.unlabeled,
    }
    return shlex.join([*as_options(spec.task), *option_words(given)])


def _room(study: Study, options: RunOptions) -> tuple[int, Sequence[str]]:
    with held_ctrl_c():
        from sclsearch.ray_backend.start import CLUSTER_SLOTS, fitting_here, mps_advice

    if options.address is not None:
        return CLUSTER_SLOTS, ()
    gpus = gpus_each(study, options)
    room = max(fitting_here(options.cpus_per_trial, gpus), 1)
    return room, mps_advice(gpus, min(options.concurrency or room, room))


def gpus_each(study: Study, options: RunOptions) -> float:
    """Return the GPUs per seed run; default: 1, or 0 for CPU training."""
    given = options.gpus_per_trial
    return float(study.numerics.startswith("cuda")) if given is None else given


def reading_notes(study: Study, splits: Splits) -> list[str]:
    """Return notes on labels, and from a sample of the texts on truncation and unknown tokens."""
    notes = [*_score_notes(study, splits), *_class_notes(study, splits)]
    try:
        texts = study.sampled_ids(splits)
        unknown_token = load_tokenizer(study.model).unk_token_id
    except SclsearchError:
        return notes  # the model check reports this error
    lengths, most = [len(ids) for ids in texts], study.lengths()[-1]
    cut = sum(length > most for length in lengths)
    if cut > FEW_CUT * len(texts):
        notes.append(
            f"max_length {most} cuts {cut} of {len(texts)} sampled texts, the longest of "
            f"{max(lengths)} tokens: --set max_length=… reads more of them"
        )
    unknown = float(np.mean(np.concatenate(texts) == unknown_token))
    if unknown > FEW_UNKNOWN:
        notes.append(
            f"{unknown:.0%} of the tokens are unknown to {Path(study.model_name).name}: take a "
            "--model of the texts' language"
        )
    return notes


def _class_notes(study: Study, splits: Splits) -> Iterator[str]:
    fields, task, y = study.fields({}), study.data.task, splits.train.labels(study.data)
    if task.regression:
        return
    alone = share_alone(y, int(str(fields["batch_size"])))
    if fields.get("rows_per_class") == 1 and alone > MOST_ALONE:
        yield (
            f"about {alone:.0%} of the texts of a batch are alone in their class, and the contrast "
            "leaves them out: --set rows_per_class=2 balances the batches"
        )
    each = len(y) / len(task.labels)
    if task.own and each <= FEW_LABELS and not study.data.splits["train"].extra:
        yield (
            f"a class has {each:.0f} training texts on average: with so few, a text that names "
            "each class may add several points (--extra FILE)"
        )


def _score_notes(study: Study, splits: Splits) -> list[str]:
    if not study.data.task.regression:
        return []
    scores = splits.train.labels(study.data)
    mean, deviation = float(scores.mean()), float(scores.std())
    if abs(mean) <= FAR and NARROW <= deviation <= FAR:
        return []
    return [
        f"the training scores have mean {mean:.3g} and standard deviation {deviation:.3g}: rescale "
        "them to about 0 to 5, because the head starts at 0"
    ]


def variants(
    methods: "Sequence[str | type[Method]]", models: Sequence[str | Path | None]
) -> Mapping[str, Mapping[str, Any]]:
    """Return the fields in which studies that run in turn differ, by name: methods or encoders.

    Raises:
        SclsearchError: There are several of both, or one is given twice.
    """
    given: dict[str, Mapping[str, Any]]
    if len(models) > 1:
        given = {Path(str(one)).name: {"model": one} for one in models}
    else:
        given = {find_method(one).name: {"method": one} for one in methods}
    if len(methods) > 1 and len(models) > 1:
        raise SclsearchError(
            f"--method, --model: only one of them may have several values, got {len(methods)} "
            f"methods and {len(models)} models. Name one method, or one model."
        )
    if len(given) < len(methods) * len(models):
        several = map(str, models if len(models) > 1 else methods)
        raise SclsearchError(
            f"--{'model' if len(models) > 1 else 'method'}: their names must differ, got "
            f"{', '.join(several)}."
        )
    return given


def prepare_several(
    given: Mapping[str, Mapping[str, Any]],
    spec: StudySpec,
    options: RunOptions,
    *,
    dry: bool = False,
) -> dict[str, Scheduler]:
    """Return one study for each of the `variants`.

    They have equal protocols, seeds and numbers of configurations. All use the given protocol, or
    else the default protocol of the first. If spaces have fewer configurations than requested,
    every study gets as many as the smallest space has. The name of a study is `options.study` and
    that of the method or of the encoder.

    Raises:
        SclsearchError: Several methods have a space file, or a study is invalid.
    """
    if isinstance(spec.space, Path) and any("method" in one for one in given.values()):
        raise SclsearchError(
            f"--space {spec.space}: is the space of one method, got {len(given)} methods. Leave it "
            "out, or search each method alone and compare the studies."
        )
    studies: dict[str, Scheduler] = {}
    protocol = spec.protocol
    for name, changes in given.items():
        own = replace(options, study=options.study and f"{options.study}-{name}")
        try:
            changed: Any = {**changes, "protocol": protocol}
            studies[name] = prepare_study(replace(spec, **changed), own, dry=dry)
            check_new(studies[name])
        except SclsearchError as error:
            raise SclsearchError(f"{name}: {error}") from error
        protocol = studies[name].study.protocol.name
    encoders = {one.study.model_digest for one in studies.values()}
    if "model" in next(iter(given.values())) and len(encoders) < len(given):
        raise SclsearchError(f"--model {','.join(given)}: two have the same weights. Name one.")
    configs = min(one.configs for one in studies.values())
    return {
        name: replace(one, **_budget(one.study, one.options, configs, one.splits[0]))
        for name, one in studies.items()
    }


def unequal_rates(studies: Mapping[str, Scheduler]) -> str:
    """Return a warning if the studies do not tune the learning rate alike; else an empty text."""
    if len({one.study.method.name for one in studies.values()}) == 1:
        return ""  # a practical space has learning rates for its encoder
    rates: dict[str, object] = {}
    for name, one in studies.items():
        searched = one.study.space.parameters.get("learning_rate")
        default = one.study.defaults["learning_rate"].value
        rates[name] = default if searched is None else asdict(searched)
    return learning_rate_warning(rates)
