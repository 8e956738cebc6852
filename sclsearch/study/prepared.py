"""Study that is ready to run: resolved, checked against its stored record, replicates drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sclsearch.canonical import counted
from sclsearch.protocols.base import Splits
from sclsearch.selection.race import Band
from sclsearch.store.records import ReplicateRecord, StudyRecord, uneven_seeds
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore
from sclsearch.study.study import Study


@dataclass(frozen=True, slots=True)
class PreparedStudy:
    """A study that is ready to run.

    Attributes:
        record: The study's record; `begin` stores it.
        splits: Training, validation and test rows of each replicate, by replicate number.
        configs: Number of configurations in total.
        at_once: Number of seed runs that can run at the same time.
        band: Band of the race; None trains all seeds of all configurations.
        tests_all: Whether all seed runs are tested; otherwise only those of the winner, at the end.
        weights: Whether the winner's best seed trains once more at the end, to store its weights.
        advice: Advice on this machine's resources, which does not affect results.
    """

    study: Study
    record: StudyRecord
    storage: Storage
    store: StudyStore
    runs: RunStore
    replicates: tuple[ReplicateRecord, ...]
    splits: Mapping[int, Splits]
    configs: int
    at_once: int
    band: Band
    tests_all: bool = True
    weights: bool = True
    advice: Sequence[str] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on rows, seeds, space and data that readers of the results need, and the advice."""
        found = [*self.splits[0].notes, *uneven_seeds(self.replicates)]
        rows, classes = len(self.splits[0].train.index), len(self.study.data.task.labels)
        if rows < classes:
            found.append(
                f"training: {counted(rows, 'example')} of {classes} classes: some have none"
            )
        return (*found, *self.record.origin["notes"], *self.advice)

    def begin(self) -> "PreparedStudy":
        """Store the records of the study, its replicates and its race, unless they are stored.

        Returns:
            The study with its stored record, which another driver process may have created.
        """
        self.store.create(self.record)
        record = self.store.check(self.record)
        for replicate in self.replicates:
            self.store.add(replicate)
        self.store.save_race(self.band)
        return replace(self, record=record)
