"""One line for each study of a storage folder."""

from pathlib import Path

from sclsearch.store.studies import StudyStore, study_names


def study_summaries(storage: Path) -> dict[str, str]:
    """Returns what each study searches and how far it is."""
    summaries = {}
    for name in study_names(storage):
        store = StudyStore(storage, name)
        record = store.record()
        if record is None:
            continue
        size = f" ({record.identity['size']})" if record.identity["size"] else ""
        summaries[name] = (
            f"{record.training['method']} on {record.identity['task']}{size}, "
            f"{record.identity['model']}, {record.identity['protocol']}; "
            f"{len(store.configurations())} configurations x {len(store.replicates())} seeds"
        )
    return summaries
