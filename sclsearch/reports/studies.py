"""One line for each study of a storage."""

from sclsearch.store.places import Storage
from sclsearch.store.studies import StudyStore, study_names


def study_summaries(storage: Storage) -> dict[str, str]:
    """Returns what each study searches and how far it is."""
    summaries = {}
    for name in study_names(storage):
        store = StudyStore(storage, name)
        record = store.record()
        if record is None:
            continue
        configurations, replicates = store.sizes()
        size = f" ({record.identity['size']})" if record.identity["size"] else ""
        summaries[name] = (
            f"{record.training['method']} on {record.identity['task']}{size}, "
            f"{record.identity['model']}, {record.identity['protocol']}; "
            f"{configurations} configurations x {replicates} seeds"
        )
    return summaries
