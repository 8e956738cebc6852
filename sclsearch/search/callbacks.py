"""Callbacks for search events."""

from collections.abc import Mapping, Sequence
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.store.runs import SeedRun
from sclsearch.store.studies import ConfigurationRecord, StudyRecord
from sclsearch.study.state import ConfigurationScore, SeedRunTask


class Callback:
    """Base class of callbacks for search events; each method does nothing by default.

    Pass instances of a subclass as `sclsearch.tune(…, callbacks=[…])`. All methods run in the
    process that called `tune`, not in Ray's workers. A resumed search repeats the events of stored
    results. An exception ends the search with an error that names the callback; finished seed runs
    stay in the storage.

    Example:
        >>> class Best(Callback):
        ...     def on_score(self, score):
        ...         print(score.number, score.score)
    """

    def on_study(self, study: StudyRecord) -> None:
        """Handle the start of a study; further events belong to it until the next study starts."""

    def on_configuration(self, configuration: ConfigurationRecord) -> None:
        """Handle a configuration that the search has just opened."""

    def on_evaluation(self, task: SeedRunTask, evaluation: Mapping[str, Any]) -> None:
        """Handle an evaluation of a running seed run, which reports one every 30 seconds.

        `evaluation` has `update`, `epoch`, the mean `loss` by term, and the `validation` result.
        """

    def on_seed_run(self, task: SeedRunTask, run: SeedRun, *, stored: bool) -> None:
        """Handle a finished seed run, or its failure.

        `task` has its configuration and replicate. `stored` is True if the store held it before
        this search.
        """

    def on_score(self, score: ConfigurationScore) -> None:
        """Handle the score of a configuration whose seed runs have all finished."""


def notify(callbacks: Sequence[Callback], event: str, *args: Any, **options: Any) -> None:
    """Call the method named `event` of each callback; an error names the callback."""
    for callback in callbacks:
        try:
            getattr(callback, event)(*args, **options)
        except SclsearchError:
            raise
        except Exception as error:
            raise SclsearchError(
                f"{type(callback).__name__}.{event}: this callback raised "
                f"{type(error).__name__}: {error}. Fix it and run the search again to resume; "
                "finished seed runs are stored."
            ) from error
