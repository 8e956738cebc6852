"""Typed options of a search; the command line's options are their fields."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from annotated_types import Ge, Gt, Interval
from pydantic import BeforeValidator

from sclsearch.arguments import check_fields
from sclsearch.protocols.draws import Unlabeled
from sclsearch.store.storage import DEFAULT_STORAGE, Storage
from sclsearch.tasks.custom import CustomTask, RowSource

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

Ending = Literal["complete", "interrupted", "out of time"]
Sampler = Literal["tpe", "gp", "random", "grid"]
Precision = Literal["auto", "fp32", "tf32", "bf16"]
TestScores = Literal["auto", "all", "winner"]
CudaGraphs = Literal["auto", "off"]
DEFAULT_METHOD = "scl"
NO_TRACKING = "none"
MOST_SEEDS = 1_000
MOST_CONFIGS = 100_000
AtLeastOne = Annotated[int, Ge(1)]
_SECONDS = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86400})


def parse_seconds(duration: object) -> object:
    """Convert a text such as `90`, `45m` or `12h` to seconds; return other values unchanged.

    Raises:
        ValueError: The text is not a positive number with an optional unit.
    """
    if not isinstance(duration, str):
        return duration
    unit = duration[-1:] if duration[-1:] in _SECONDS else "s"
    try:
        seconds = float(duration.removesuffix(unit)) * _SECONDS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("must be a positive number of seconds, or one with m, h or d")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """Identity of a study: what to search or train.

    Paths may be given as text.

    Attributes:
        task: Name in `TASKS`, or a user's own files.
        method: Name in `METHODS`, `FILE.py:CLASS` for a user's own method, or its class.
        model: Alias, folder or name on the Hugging Face hub; None uses the protocol's model.
        protocol: Name of a protocol, as `find_protocol` accepts it; None uses the task's, or the
            one of the method's paper.
        scale: Name in `SCALES`: reduces the protocol's rows, updates and repetitions.
        splits: Number of random splits of the training rows into training and validation, for
            protocol plain. Replicates use them in turn. None uses the task's own split.
        fresh: Number of new replicates beyond the protocol's, used instead of the protocol's own.
        first_fresh: Number of the first new replicate. None, or a number below the protocol's
            count, means the first one beyond the protocol's own.
        train_size: Number of training examples in total.
        shots: Number of training examples per class.
        unlabeled: Size of the text pool of stages that read no labels: a number, or `all`. It
            includes the training examples. None means the training examples only.
        space: `practical`, `paper` or a file. None means `paper` if encoder, task and amount of
            data are those of the protocol's paper, else `practical`.
        settings: Fields with a fixed value; the search does not vary them.
        sampler: Sampler used after the published configurations.
        search_seed: Seed of the sampler only.
        paraphrases: File with paraphrases of each training text, for methods and protocols that
            read them; None generates them with EDA (easy data augmentation).
        precision: Precision of matrix products; `tf32` on GPUs alone. `auto` is bf16 on GPUs of
            compute capability 8.0 or higher, else fp32. Results of two precisions differ.
        searched: False trains one configuration: every field has its default or its setting.
        restored: True if the settings are all fields of a stored configuration. A space then adds
            none: a field that is absent has its default.
        shown: Names of the settings that reports show, of a restored configuration.
    """

    task: str | CustomTask
    method: "str | type[Method]" = DEFAULT_METHOD
    model: str | Path | None = None
    protocol: str | None = None
    scale: str | None = None
    splits: int | None = None
    fresh: int | None = None
    first_fresh: int | None = None
    train_size: int | None = None
    shots: int | None = None
    unlabeled: Unlabeled | None = None
    space: Literal["practical", "paper"] | Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    sampler: Sampler = "tpe"
    search_seed: int = 0
    paraphrases: Path | None = None
    precision: Precision = "auto"
    searched: bool = True
    restored: bool = False
    shown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise SclsearchError if a field is not of its type."""
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Execution options of a study: storage, resources, limits and tracking.

    They do not affect the results of a seed run, except that CPU and GPU results differ.

    Paths may be given as text.

    Attributes:
        study: The study's name; None derives one from its identity.
        storage: Folder of runs and studies, or `s3://bucket/folder`, `gs://bucket/folder`.
        data_dir: Folder with the tasks' own files; None uses SCLSEARCH_DATA, then the hub.
        tracking: MLflow tracking URI. None uses MLFLOW_TRACKING_URI, then a SQLite file in the
            storage if that is a folder. `none` disables MLflow.
        register: Name of the winner in MLflow's model registry; None does not register it.
        configs: Configurations in total; None means 20, fewer for a user's own files, or all of a
            smaller space.
        seeds: Replicates per configuration; None uses the protocol's number.
        rule: Rule that combines seeds into a score; None uses the protocol's, even if an earlier
            run of the study used another.
        race: After 2, 4 and 8 seeds (3 and 6 under top-k), leaves out configurations that are
            neither in the best third nor within this many standard errors of the leader. `exact`
            leaves out only those that cannot win, `off` none. None means 2.5 (3.5 under top-k) from
            6 configurations and 5 seeds on, else `off`.
        address: Address of a Ray cluster; None starts Ray on this machine.
        cpus_per_trial: CPU cores, and torch threads, per seed run.
        gpus_per_trial: GPUs per seed run: 0, 1 or 1/k; None means 1 if there is a GPU.
        cuda_graphs: `auto` replays updates on a GPU as CUDA graphs, with the same results to the
            bit; `off` launches each kernel.
        concurrency: Seed runs at a time; None means as many as fit, on a cluster at least 64.
        test_scores: Seed runs that get a test score: `all` of them, at the end of their training;
            or those of the `winner` alone, at the end of the search. `auto` means `winner` if a
            test takes over a quarter of a seed run's time and reads over 1,000 rows, else `all`.
        time_budget: Wall-clock time of this start after which no further seed run starts: seconds,
            or a text such as `45m` or `12h`.
        trial_timeout: Time after which a seed run counts as hung, likewise.
        retry_failed: Train failed seed runs again.
        custom_method: `FILE.py:CLASS`, required to repeat a study whose method is in a file. Code
            that a storage names runs only with this consent, and only if its hash equals the stored
            one.
    """

    study: str | None = None
    storage: Storage = DEFAULT_STORAGE
    data_dir: Path | None = None
    tracking: str | None = None
    register: str | None = None
    configs: Annotated[int, Interval(ge=1, le=MOST_CONFIGS)] | None = None
    seeds: Annotated[int, Interval(ge=1, le=MOST_SEEDS)] | None = None
    rule: str | None = None
    race: Annotated[float, Interval(gt=0, le=100)] | Literal["exact", "off"] | None = None
    test_scores: TestScores = "auto"
    address: str | None = None
    cpus_per_trial: AtLeastOne = 1
    gpus_per_trial: Annotated[float, Ge(0)] | None = None
    cuda_graphs: CudaGraphs = "auto"
    concurrency: AtLeastOne | None = None
    time_budget: Annotated[float, BeforeValidator(parse_seconds), Ge(0)] | None = None
    trial_timeout: Annotated[float, BeforeValidator(parse_seconds), Gt(0)] | None = None
    retry_failed: bool = False
    custom_method: str | None = None

    def __post_init__(self) -> None:
        """Raise SclsearchError if a field is not of its type or out of its bounds."""
        check_fields(self)


SEARCH_OPTIONS = (
    "configs",
    "sampler",
    "search_seed",
    "time_budget",
    "race",
    "test_scores",
)
"""Options that a search has and the training of one configuration lacks."""


class TuneKeywords(TypedDict, total=False):
    """Keyword arguments of `sclsearch.tune`: fields of `CustomTask`, `StudySpec`, `RunOptions`."""

    text: str | Sequence[str] | None
    label: str | None
    validation: RowSource | None
    test: RowSource | None
    split_column: str | None
    fractions: Sequence[float] | None
    metric: str | None
    regression: bool
    id: str | None
    delimiter: str | None
    model: str | Path | None
    protocol: str | None
    scale: str | None
    splits: int | None
    train_size: int | None
    shots: int | None
    unlabeled: Unlabeled | None
    space: Path | str | None
    settings: Mapping[str, object]
    sampler: Sampler
    search_seed: int
    paraphrases: Path | str | None
    precision: Precision
    study: str | None
    storage: Storage
    data_dir: Path | str | None
    tracking: str | None
    register: str | None
    configs: int | None
    seeds: int | None
    rule: str | None
    race: float | Literal["exact", "off"] | None
    test_scores: TestScores
    address: str | None
    cpus_per_trial: int
    gpus_per_trial: float | None
    cuda_graphs: CudaGraphs
    concurrency: int | None
    time_budget: float | str | None
    trial_timeout: float | str | None
    retry_failed: bool
