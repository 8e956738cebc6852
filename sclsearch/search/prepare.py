"""A study on the point of being run: its records, its store, its replicates."""

import math
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sclsearch.errors import SclsearchError
from sclsearch.protocols.base import Parts
from sclsearch.search.board import Board, open_configurations_for
from sclsearch.search.lengths import reading_notes
from sclsearch.search.machines import CLUSTER_SLOTS, gpus_each
from sclsearch.search.options import DEFAULT_CONFIGS, How, What
from sclsearch.search.resolve import resolve
from sclsearch.search.signals import held_ctrl_c
from sclsearch.search.study import Study
from sclsearch.search.tokenised import paraphrased
from sclsearch.selection.race import LEAST
from sclsearch.store.places import Storage, check_can_be_written, storage_folder
from sclsearch.store.records import ReplicateRecord, StudyRecord
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore
from sclsearch.tasks.own_options import as_options


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study on the point of being run.

    Attributes:
        study: The study.
        record: Its record; stored only once the study runs.
        storage: Where it is stored.
        store: Its records.
        runs: The run store.
        replicates: Records of the replicates.
        parts: Rows of the replicates.
        configs: Configurations in total.
        at_once: Seed runs that are likely to run at a time.
    """

    study: Study
    record: StudyRecord
    storage: Storage
    store: StudyStore
    runs: RunStore
    replicates: tuple[ReplicateRecord, ...]
    parts: Mapping[int, Parts]
    configs: int
    at_once: int

    def begin(self) -> "Prepared":
        """Stores the study's record and those of its replicates, unless they are there.

        Returns:
            The study with the record that is stored: another driver may have created it since.

        Raises:
            SclsearchError: That one is another study.
        """
        self.store.create(self.record)
        record = self.store.check(self.record)
        for replicate in self.replicates:
            self.store.add(replicate)
        return replace(self, record=record)

    def board(self, **options: Any) -> Board:
        """Returns the board of the study."""
        return Board(
            self.study, self.record, self.store, self.runs, self.replicates, self.configs, **options
        )


def prepare_study(what: What, how: How, *, dry: bool = False) -> Prepared:
    """Returns the study that the options describe, nothing written yet but the storage folder.

    Args:
        what: What is searched.
        how: How it is run.
        dry: Whether not even the storage folder is made.

    Raises:
        SclsearchError: Options, data, model or the stored study of that name do not fit.
    """
    study = resolve(what, how)
    if how.race is not None and study.seeds <= LEAST:
        raise SclsearchError(
            f"--race: there must be more than {LEAST} seeds, which every configuration gets, but "
            f"there {'is' if study.seeds == 1 else 'are'} {study.seeds}. Leave it out."
        )
    if dry:
        check_can_be_written(how.storage)
    storage = storage_folder(how.storage, make=not dry)
    store = StudyStore(storage, how.study or _default_name(study, storage))
    numbers = range(study.seeds)
    same = study.unlabelled is None and study.protocol.same_rows(study.size)
    parts = dict.fromkeys(numbers, study.parts(0)) if same else {n: study.parts(n) for n in numbers}
    if what.paraphrases is not None:
        _check_paraphrases(what, how, study, parts)
    replicates = tuple(study.replicate(n, parts[n]) for n in numbers)
    room = CLUSTER_SLOTS if how.address is not None else _room_here(study, how)
    asked = how.concurrency or room
    record = StudyRecord(
        name=store.name,
        identity=study.identity,
        training=study.job({}, 0, parts[0]).shared_identity,
        origin=_origin(store.name, study, what, how, parts[0], new=store.record() is None),
        open_configurations=open_configurations_for(asked, study.seeds, how.race is not None),
        created=time.time(),
    )
    return Prepared(
        study=study,
        record=store.check(record, replicates),
        storage=storage,
        store=store,
        runs=RunStore(storage),
        replicates=replicates,
        parts=parts,
        configs=_configs(study, how.configs),
        at_once=min(asked, room) if how.address is None else asked,
    )


def _default_name(study: Study, storage: Storage) -> str:
    """Return the study's name; release 0.1.0 named it by the path of its encoder."""
    by_path = StudyStore(storage, study.default_name(study.model_name))
    return study.default_name() if by_path.record() is None else by_path.name


def check_new(prepared: Prepared, how: How) -> None:
    """Check a study that is not stored yet: model, tokenizer and room for a seed run.

    Raises:
        SclsearchError: No seed run of the study could be trained.
    """
    from sclsearch.encoders.load import load_encoder, load_tokenizer

    if prepared.store.record() is not None:
        return
    study = prepared.study
    encoder = load_encoder(study.model, study.model_name)
    study.check(encoder)
    last = max(load_tokenizer(study.model).get_vocab().values(), default=0)
    if last >= len(encoder.embeddings):
        raise SclsearchError(
            f"--model {study.model_name}: tokenizer.json has token {last}, but the model has "
            f"embeddings of {len(encoder.embeddings)} tokens. Take both files from one checkpoint."
        )
    if how.address is None:
        with held_ctrl_c():
            from sclsearch.search.cluster import check_room_here
        check_room_here(how.cpus_per_trial, gpus_each(how.gpus_per_trial, study.numerics))


def _check_paraphrases(what: What, how: How, study: Study, parts: Mapping[int, Parts]) -> None:
    """Refuses a file that lacks a text, before anything is written."""
    read = [rows.without_labels.index for rows in parts.values()]
    try:
        paraphrased(study, np.concatenate(read))
    except SclsearchError as error:
        # Replicate r draws subset r; fresh seeds draw others.
        count = 1 + max(study.protocol.replicate(number).subset for number in parts)
        if study.protocol.joined and study.reads_paraphrases:
            needed = f"{error} The file must have those of {count} replicates."
            raise SclsearchError(needed) from error
        raise SclsearchError(
            f"{error} `sclsearch augment {_augmented(what, how, study, count)} --backend …` writes "
            "those that are missing."
        ) from error


def _augmented(what: What, how: How, study: Study, replicates: int) -> str:
    """Returns the options of `augment` that name the texts which the study reads."""
    given = {
        "--data-dir": how.data_dir,
        "--train-size": what.train_size,
        "--shots": what.shots,
        "--protocol": study.protocol.name,
        "--replicates": replicates,
        "--unlabelled": what.unlabelled,
    }
    told = [(name, str(value)) for name, value in given.items() if value is not None]
    return shlex.join([*as_options(what.task), *chain.from_iterable(told)])


def _origin(
    name: str, study: Study, what: What, how: How, parts: Parts, *, new: bool
) -> dict[str, Any]:
    task = what.task if isinstance(what.task, str) else _plain(asdict(what.task))
    return {
        "study": name,
        "method": study.method.place,
        "task": task,
        "labels": list(study.data.task.labels),
        "pair": study.data.task.pair,
        "model": study.model_place,
        "protocol": study.protocol.name,
        "scale": study.protocol.scale,
        "splits": what.splits,
        "fresh": what.fresh,
        "first_fresh": what.first_fresh,
        "crossed": what.crossed,
        "train_size": what.train_size,
        "shots": what.shots,
        "unlabelled": what.unlabelled,
        "data_dir": None if how.data_dir is None else str(how.data_dir.resolve()),
        "source": study.data.source,
        "rule": str(study.rule),
        # What is trained again has every field set, none of them by hand.
        "settings": {} if what.fresh or what.crossed else dict(what.settings),
        "paraphrases": None if what.paraphrases is None else str(what.paraphrases.resolve()),
        "notes": [*study.notes, *(reading_notes(study, parts) if new else ())],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _room_here(study: Study, how: How) -> int:
    """Returns how many seed runs this machine has room for, known before Ray is started."""
    with held_ctrl_c():
        from sclsearch.search.cluster import fitting_here

    room = fitting_here(how.cpus_per_trial, gpus_each(how.gpus_per_trial, study.numerics))
    return max(room, 1)


def _configs(study: Study, asked: int | None) -> int:
    size = study.space.size()
    limit = math.inf if size is None else size
    return int(min(asked or DEFAULT_CONFIGS, limit))
