"""One line for each study of a storage."""

from collections.abc import Collection

from sclsearch.canonical import counted
from sclsearch.store.objects import DamagedError
from sclsearch.store.places import Storage
from sclsearch.store.records import seed_run_key
from sclsearch.store.runs import RunStore
from sclsearch.store.studies import StudyStore, study_names


def study_summaries(storage: Storage) -> dict[str, str]:
    """Returns what each study searches and how far it is; of one that is damaged, what is wrong.

    It reads the records and no seed run: a storage may have thousands.
    """
    summaries = {}
    stored = frozenset(RunStore(storage).keys())
    for name in study_names(storage):
        try:
            summaries[name] = _summary(StudyStore(storage, name), stored)
        except DamagedError as error:
            summaries[name] = f"cannot be read: {error}"
    return {name: told for name, told in summaries.items() if told}


def _summary(store: StudyStore, stored: Collection[str]) -> str:
    record = store.record()
    if record is None:
        return ""
    configurations, replicates = store.configurations(), store.replicates()
    keys = [
        seed_run_key(record, configuration, replicate)
        for configuration in configurations
        for replicate in replicates
    ]
    size = f" ({record.identity['size']})" if record.identity["size"] else ""
    return (
        f"{record.training['method']} on {record.identity['task']}{size}, "
        f"{record.identity['model']}, {record.identity['protocol']}; "
        f"{counted(len(configurations), 'configuration')} x {counted(len(replicates), 'seed')}, "
        f"{sum(key in stored for key in keys)} of {counted(len(keys), 'seed run')} stored"
    )
