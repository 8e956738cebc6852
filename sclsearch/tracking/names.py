"""Names of experiments and runs in MLflow."""

from collections.abc import Mapping
from typing import Any

from sclsearch.canonical import settings
from sclsearch.store.records import ConfigurationRecord, StudyRecord

SHORT = {"learning_rate": "lr"}
LONGEST_NAME = 250


def experiment_name(record: StudyRecord) -> str:
    """Return the name of a study's experiment, such as `cola, 100 examples, minilm`.

    Studies of several methods share an experiment, so that one table compares them.
    """
    task, size, model = (record.identity[name] for name in ("task", "size", "model"))
    number, _, per_class = str(size or "all").partition("-")
    examples = f"{number} examples" + (f" {per_class.replace('-', ' ')}" if per_class else "")
    return f"{task}, {examples}, {model}"


def configuration_name(record: StudyRecord, configuration: ConfigurationRecord) -> str:
    """Return the searched hyperparameters as `tau=0.3 lr=0.0001`, or the number without any."""
    order = [parameter["name"] for parameter in record.identity["space"]["parameters"]]
    values = {name: configuration.values[name] for name in order if name in configuration.values}
    return short_settings(values) or f"configuration {configuration.number}"


def short_settings(values: Mapping[str, Any]) -> str:
    """Return hyperparameters as one short line, for example `tau=0.3 lr=0.0001`."""
    return settings({SHORT.get(name, name): value for name, value in values.items()})[:LONGEST_NAME]
