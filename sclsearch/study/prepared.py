"""A study that is ready to run: resolved, compared with its stored record, its rows drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sclsearch.protocols.base import Splits
from sclsearch.store.records import ReplicateRecord, StudyRecord
from sclsearch.store.runs import RunStore
from sclsearch.store.storage import Storage
from sclsearch.store.studies import StudyStore
from sclsearch.study.study import Study


@dataclass(frozen=True, slots=True)
class PreparedStudy:
    """A study that is ready to run.

    Attributes:
        study: The resolved study.
        record: Its record; stored once the study runs.
        storage: The storage of its records and seed runs.
        store: Its records.
        runs: The run store.
        replicates: Records of the replicates.
        splits: Training, validation and test rows of each replicate, by its number.
        configs: Number of configurations in total.
        at_once: Number of seed runs that can run at the same time.
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

    def begin(self) -> "PreparedStudy":
        """Store the records of the study and its replicates, unless they are stored.

        Returns:
            The study with its stored record, which another driver may have created meanwhile.

        Raises:
            SclsearchError: The stored record belongs to another study.
        """
        self.store.create(self.record)
        record = self.store.check(self.record)
        for replicate in self.replicates:
            self.store.add(replicate)
        return replace(self, record=record)
