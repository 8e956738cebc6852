"""Hyperparameter search for supervised contrastive fine-tuning of text classifiers.

Python API: `sclsearch.tune(method="scl", task="cola")`, likewise `train`, `select`, `table`,
`compare`, `write_report`, `export`, `load` and `predict`.
Importing this package does not load torch, Ray, MLflow or transformers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sclsearch.api import (
        compare,
        export,
        load,
        predict,
        remove,
        select,
        table,
        train,
        tune,
        write_report,
    )
    from sclsearch.errors import SclsearchError
    from sclsearch.reports.predictor import Predictor
    from sclsearch.reports.report import Report
    from sclsearch.search.callbacks import Callback
    from sclsearch.tasks.custom import CustomTask

    __version__: str

__all__ = [
    "Callback",
    "CustomTask",
    "Predictor",
    "Report",
    "SclsearchError",
    "__version__",
    "compare",
    "export",
    "load",
    "predict",
    "remove",
    "select",
    "table",
    "train",
    "tune",
    "write_report",
]

_API = "sclsearch.api"
_HOMES = {
    "Callback": "sclsearch.search.callbacks",
    "CustomTask": "sclsearch.tasks.custom",
    "Predictor": "sclsearch.reports.predictor",
    "Report": "sclsearch.reports.report",
    "SclsearchError": "sclsearch.errors",
}
"""Modules of the public names that are not in `_API`."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use.

    API functions are wrapped so that their error messages name Python arguments, not options.
    """
    from importlib import import_module
    from importlib.metadata import version

    if name == "__version__":
        return version("sclsearch")
    if name not in __all__:
        raise AttributeError(f"module 'sclsearch' has no attribute {name!r}")
    home = _HOMES.get(name, _API)
    found = getattr(import_module(home), name)
    if home == _API:
        from sclsearch.arguments import arguments_named

        found = arguments_named(found)
    globals()[name] = found
    return found
