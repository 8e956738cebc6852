"""Hyperparameter search for supervised contrastive fine-tuning of text classifiers.

`from sclsearch import tune, train, select, compare, export, predict, What, How` is the Python
interface; importing this package alone loads none of torch, Ray, MLflow and transformers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sclsearch.api import compare, export, predict, select, train, tune
    from sclsearch.reports.report import Report
    from sclsearch.search.options import How, What
    from sclsearch.tasks.own import OwnFiles

__all__ = [
    "How",
    "OwnFiles",
    "Report",
    "What",
    "compare",
    "export",
    "predict",
    "select",
    "train",
    "tune",
]

_HOMES = {
    "How": "sclsearch.search.options",
    "OwnFiles": "sclsearch.tasks.own",
    "Report": "sclsearch.reports.report",
    "What": "sclsearch.search.options",
    "compare": "sclsearch.api",
    "export": "sclsearch.api",
    "predict": "sclsearch.api",
    "select": "sclsearch.api",
    "train": "sclsearch.api",
    "tune": "sclsearch.api",
}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'sclsearch' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
