"""Hyperparameter search for supervised contrastive fine-tuning of text classifiers.

`Classifier` is an estimator in the style of scikit-learn. `tune` searches, `select`, `table`,
`compare` and `write_report` show results, `export` writes the winner, and `load` reads it.
Importing this package does not load torch, Ray, MLflow or transformers.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sclsearch.api import (
        compare,
        confirm,
        export,
        load,
        remove,
        select,
        table,
        train,
        tune,
        write_report,
    )
    from sclsearch.classifier import Classifier
    from sclsearch.errors import SclsearchError
    from sclsearch.exports.predictor import Predictor
    from sclsearch.reports.comparison import StudyComparison
    from sclsearch.reports.method_comparison import MethodComparison
    from sclsearch.reports.report import Report
    from sclsearch.search.callbacks import Callback
    from sclsearch.study.spec import RunOptions, StudySpec
    from sclsearch.tasks.custom import CustomTask

    __version__: str

__all__ = ["Callback", "Classifier", "CustomTask", "MethodComparison", "Predictor", "Report"]
__all__ += ["RunOptions", "SclsearchError", "StudyComparison", "StudySpec", "__version__"]
__all__ += [
    "compare",
    "confirm",
    "export",
    "load",
    "remove",
    "select",
    "table",
    "train",
    "tune",
    "write_report",
]


def __dir__() -> list[str]:
    """Return the public names, also those that are not imported yet."""
    return __all__


def __getattr__(name: str) -> Any:
    """Import a public name on first use.

    API functions are wrapped so that their error messages name Python arguments, not options.
    """
    from importlib import import_module
    from importlib.metadata import version
    from inspect import isfunction

    if name == "__version__":
        return version("sclsearch")
    if name not in __all__:
        raise AttributeError(f"module 'sclsearch' has no attribute {name!r}")
    home = "classifier" if name == "Classifier" else "api"
    found = getattr(import_module(f"sclsearch.{home}"), name)
    if isfunction(found):
        from sclsearch.arguments import arguments_named

        found = arguments_named(found)
    globals()[name] = found
    return found
