"""Search of several methods in turn, each with the same budget."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sclsearch.errors import SclsearchError
from sclsearch.methods import find_method
from sclsearch.search.callbacks import Callback
from sclsearch.search.prepare import check_new, prepare_study
from sclsearch.search.run import SearchResult, run_prepared
from sclsearch.spaces.space import learning_rate_warning
from sclsearch.study.prepared import PreparedStudy
from sclsearch.study.spec import RunOptions, StudySpec

if TYPE_CHECKING:
    from sclsearch.methods.base import Method


@dataclass(frozen=True, slots=True)
class MethodSearch:
    """Search of one of several methods: its study, and the run options of this study."""

    method: str
    prepared: PreparedStudy
    options: RunOptions


@dataclass(frozen=True, slots=True)
class MethodResult:
    """Result of the search of one of several methods, or the error that ended it."""

    method: str
    done: SearchResult | None
    error: SclsearchError | None


def prepare_methods(
    methods: "Sequence[str | type[Method]]",
    spec: StudySpec,
    options: RunOptions,
    *,
    dry: bool = False,
) -> list[MethodSearch]:
    """Return one search per method, with equal protocols, seeds and numbers of configurations.

    All methods use the given protocol, or else the default protocol of the first method. If spaces
    have fewer configurations than requested, every method gets as many as the smallest space has.

    Args:
        methods: Names or classes of the methods. The first is the reference.
        spec: The study specification; each method replaces its `method`.
        options: Run options. A study's name is `options.study` and the method's name.
        dry: If True, do not create even the storage folder.

    Raises:
        SclsearchError: A method is given twice, a space file is given, or a study is invalid.
    """
    names = [find_method(method).name for method in methods]
    if len(set(names)) < len(names):
        raise SclsearchError(
            f"--method: must name different methods, got {', '.join(names)}. Name each once."
        )
    if isinstance(spec.space, Path):
        raise SclsearchError(
            f"--space {spec.space}: is the space of one method, got {len(names)} methods. Leave it "
            "out, or search each method alone and compare the studies."
        )
    searches = list[MethodSearch]()
    protocol = spec.protocol
    for name, method in zip(names, methods, strict=True):
        own = replace(options, study=options.study and f"{options.study}-{name}")
        try:
            prepared = prepare_study(replace(spec, method=method, protocol=protocol), own, dry=dry)
            check_new(prepared, own)
        except SclsearchError as error:
            raise SclsearchError(f"{name}: {error}") from error
        protocol = prepared.study.protocol.name
        searches.append(MethodSearch(name, prepared, own))
    configs = min(search.prepared.configs for search in searches)
    return [
        replace(search, prepared=replace(search.prepared, configs=configs)) for search in searches
    ]


def unequal_rates(searches: Sequence[MethodSearch]) -> str:
    """Return a warning if the methods do not tune the learning rate alike; else an empty text."""
    rates: dict[str, object] = {}
    for one in searches:
        study = one.prepared.study
        searched = study.space.parameters.get("learning_rate")
        default = study.defaults["learning_rate"].value
        rates[one.method] = default if searched is None else searched.spec()
    return learning_rate_warning(rates)


def run_methods(
    searches: Sequence[MethodSearch], console: Console, callbacks: Sequence[Callback] = ()
) -> Iterator[MethodResult]:
    """Run the searches in turn and yield the result of each.

    An error ends only the search of its method. An interruption also ends those that follow. Each
    method may use an equal share of the time that is left of the time budget.
    """
    budget = searches[0].options.time_budget
    deadline = None if budget is None else time.monotonic() + budget
    advised = False
    for position, search in enumerate(searches):
        left = len(searches) - position
        console.print(
            f"{search.method} ({position + 1} of {len(searches)})", style="bold", markup=False
        )
        share = None if deadline is None else max(deadline - time.monotonic(), 0.0) / left
        options = replace(search.options, time_budget=share)
        # The advice is the same for every method; a search that trains nothing does not print it.
        prepared = replace(search.prepared, advice=()) if advised else search.prepared
        try:
            done = run_prepared(prepared, options, console, callbacks)
        except SclsearchError as error:
            yield MethodResult(search.method, None, error)
            continue
        advised = advised or done.trained > 0
        yield MethodResult(search.method, done, None)
        if done.ending == "interrupted":
            return
