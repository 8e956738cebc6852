"""Options of a search: what to train, and how to run it.

Each field is declared once: its type, its default, and its meaning as an `Option`. The command
line, the keyword arguments of the Python API and the reference are made from the fields.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

from annotated_types import Ge, Gt, Interval
from pydantic import AfterValidator, BeforeValidator

from sclsearch.arguments import DATA, Option, check_fields
from sclsearch.methods import is_own
from sclsearch.protocols.rows import Unlabeled
from sclsearch.store.storage import DEFAULT_STORAGE, Storage
from sclsearch.tasks.custom import CustomTask, RowSource

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

Ending = Literal["complete", "interrupted", "out of time"]
SAMPLERS = ("gp", "tpe", "random", "grid")
Precision = Literal["auto", "fp32", "tf32", "bf16"]
TestScores = Literal["auto", "all", "winner"]
CudaGraphs = Literal["auto", "off"]
SEARCH, BUDGET, RESOURCES, STORAGE = "Search", "Budget", "Resources", "Storage and tracking"
DEFAULT_METHOD = "scl"
NO_TRACKING = "none"
MOST_SEEDS = 1_000
MOST_CONFIGS = 100_000
AtLeastOne = Annotated[int, Ge(1)]
Band = Annotated[float, Interval(gt=0, le=100)] | Literal["exact", "off"]
_STEPS = 10_000  # Ray counts resources in ten-thousandths
_ROUNDING = 0.005  # 0.333 and 0.143 are meant as a third and a seventh
_SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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


def check_address(address: str) -> str:
    """Return a Ray cluster address; raise ValueError if a search cannot connect to it."""
    # With Ray Client, as in ray://HOST:10001, the search would end with this connection.
    if not re.fullmatch(r"auto|[^/]+:\d+", address):
        raise ValueError(
            "must be auto or HOST:PORT, on a machine of the cluster (from elsewhere: `ray job "
            "submit --address http://HOST:8265 -- sclsearch tune … --address auto`)"
        )
    return address


def check_sampler(sampler: str) -> str:
    """Return the name of a sampler, or `FILE.py:FUNCTION`; raise ValueError for another text."""
    if sampler not in SAMPLERS and not is_own(sampler):
        raise ValueError(f"must be {', '.join(SAMPLERS)} or FILE.py:FUNCTION")
    return sampler


def gpu_share(share: float) -> float:
    """Return the GPUs per seed run as Ray counts them: 0, 1 or 1/k.

    Ray fills one GPU with seed runs before it uses the next. Any other share would leave a part of
    every GPU idle.

    Raises:
        ValueError: The share is another one; the message names the two nearest valid shares.
    """
    if not 0 <= share <= 1:
        raise ValueError("must be 0, 1/k or 1, since a seed run uses one GPU at most")
    if share == int(share):
        return float(share)
    k = round(1 / share)
    if abs(share * k - 1) < _ROUNDING:
        # If the share is rounded up, as 0.1429 is, k seed runs do not fit into one GPU.
        return max(_STEPS // k, 1) / _STEPS
    nearest = 1 / math.ceil(1 / share), 1 / math.floor(1 / share)
    raise ValueError(
        f"must be 1/k, so that seed runs fill every GPU, such as {nearest[0]:.4g} or "
        f"{nearest[1]:.4g}"
    )


Seconds = Annotated[float, BeforeValidator(parse_seconds), Gt(0)]
CHECKPOINT_SECONDS = 15 * 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """Identity of a study: what to search or train. Paths may be given as text.

    Attributes:
        task: A name from `sclsearch ls tasks`, a CSV, TSV, JSON Lines or Parquet file, or a data
            set on the Hugging Face hub, hf:owner/name@revision.
        train_size: Training examples in total. Example: 100. Default: all.
        shots: Training examples per class. Example: 16. Default: all.
        method: A name from `sclsearch ls methods`, or FILE.py:CLASS; for `tune` also several,
            separated by commas. Example: ce,scl.
        model: Encoder: a folder, a hub name or one of `sclsearch ls models`. The name of a study
            is the encoder of its winner. For `tune` also several, separated by commas, in Python
            also a list. Default: the protocol's.
        settings: Hyperparameters to fix, see `sclsearch ls methods METHOD`. Example: tau=0.3.
        metric: Metric that selects checkpoints and configurations: accuracy, mcc, f1, f0.5, f2,
            macro_f1, weighted_f1, balanced_accuracy, roc_auc, average_precision or neg_log_loss;
            for scores pearson or spearman. Default: the task's; for your own file accuracy or
            pearson.
        protocol: Rules of splits, seeds and selection, see `sclsearch ls protocols`. Default: the
            protocol of the method's paper.
        scale: Reduced scale. laptop: MiniLM, 3 seeds, at most 150 updates per stage, 200
            validation and 500 test rows. Default: full scale.
        folds: Number of folds of the training rows, on which the seeds validate in turn; only for
            protocol plain. A validation split is then not used. Example: 10. Default: 5 for your
            own file of up to 2,000 rows without validation rows.
        unlabeled: Number of texts for stages that read no labels, including the training examples,
            or all. Further texts may be unlabeled rows of your file. Default: the training
            examples. Example: 500.
        paraphrases: File written by `python -m sclsearch.papers.augmentation`. Default: paraphrases
            by EDA (easy data augmentation).
        space: Search space: practical (any encoder and data), paper (its grid), or a YAML file.
            Default: paper if encoder, task and amount of data are the paper's, else practical.
        sampler: Sampler used after the published configurations: gp, tpe, random, grid, or
            FILE.py:FUNCTION, which returns an Optuna sampler for a seed.
        start_from: Study whose five best configurations are tried first, as far as the search space
            contains them.
        search_seed: Seed of the sampler; it does not affect training.
        precision: Precision of matrix products. auto: bf16 on GPUs that are fast with it, else
            fp32. tf32: GPUs alone. Results of two precisions differ.
        first: Fields of the configurations of `start_from`, best first.
        fresh: Number of new replicates beyond the protocol's, used instead of the protocol's own.
        first_fresh: Number of the first new replicate. None, or a number below the protocol's
            count, means the first one beyond the protocol's own.
        searched: False trains one configuration: every field has its default or its setting.
        restored: True if the settings are all fields of a stored configuration. A space then adds
            none: a field that is absent has its default.
        shown: Names of the settings that reports show, of a restored configuration.
    """

    task: Annotated[str | CustomTask, Option(panel=DATA, kind=str)]
    train_size: Annotated[int | None, Option(panel=DATA)] = None
    shots: Annotated[int | None, Option(panel=DATA)] = None
    method: Annotated["str | type[Method]", Option(panel=SEARCH, kind=str)] = DEFAULT_METHOD
    model: Annotated[str | Path | None, Option(panel=SEARCH, kind=str | None)] = None
    settings: Annotated[
        Mapping[str, object],
        Option(panel=SEARCH, name="--set", metavar="KEY=VALUE", kind=list[str] | None),
    ] = field(default_factory=dict)
    metric: Annotated[str | None, Option(panel=DATA, more=True)] = None
    protocol: Annotated[str | None, Option(panel=DATA, more=True)] = None
    scale: Annotated[Literal["laptop"] | None, Option(panel=DATA, more=True)] = None
    folds: Annotated[int | None, Option(panel=DATA, more=True)] = None
    unlabeled: Annotated[
        Unlabeled | None, Option(panel=DATA, more=True, metavar="N|all", kind=str | None)
    ] = None
    paraphrases: Annotated[Path | None, Option(panel=DATA, more=True)] = None
    space: Annotated[
        Literal["practical", "paper"] | Path | None,
        Option(panel=SEARCH, metavar="practical|paper|FILE", kind=str | None),
    ] = None
    sampler: Annotated[
        Annotated[str, AfterValidator(check_sampler)], Option(panel=SEARCH, more=True)
    ] = "gp"
    start_from: Annotated[str | None, Option(panel=SEARCH, more=True, metavar="STUDY")] = None
    search_seed: Annotated[int, Option(panel=SEARCH, more=True)] = 0
    precision: Annotated[Precision, Option(panel=RESOURCES, more=True)] = "auto"
    first: tuple[Mapping[str, object], ...] = ()
    fresh: int | None = None
    first_fresh: int | None = None
    searched: bool = True
    restored: bool = False
    shown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Execution options of a study: storage, resources, limits and tracking.

    They do not affect the results of a seed run, except that CPU and GPU results differ. Paths may
    be given as text.

    Attributes:
        seeds: Seeds per configuration. Default: the protocol's; 2 to 5 for your own file.
        configs: Configurations in total. Default: 20; 5 to 10 for your own file.
        rule: Selection rule: careful, mean, best, top-K, or score/report. Default: the protocol's.
            Example: mean/best.
        race: After 2, 4, 8, … seeds, go on with the best third of the configurations and those
            within BAND standard errors of the leader. exact: also with all that can still win.
            Default: 2.5 (3.5 under top-k) from 6 configurations x 5 seeds on, else off.
        time_budget: Wall-clock time after which no seed run starts; exit code 3 if seed runs
            remain. Default: no limit. Examples: 45m, 12h.
        test_scores: Seed runs to test: all, or those of the winner, at the end. auto: winner if a
            test takes over a quarter of a seed run's time and has over 1,000 rows.
        trial_timeout: Treat a seed run as hung after this time of training. Default: no limit.
            Examples: 45m, 12h.
        retry_failed: Train failed seed runs again.
        checkpoint_every: After this time of training, a seed run writes a checkpoint at its next
            evaluation and resumes there if it is lost; or off. Default: 15m. Example: 5m.
        address: Ray cluster, on one of its machines: auto or HOST:PORT. Default: start Ray here.
        cpus_per_trial: CPU cores per seed run.
        gpus_per_trial: GPUs per seed run, or the fraction 1/k of one. Default: 1 if there is a
            GPU.
        accelerator: Train only on nodes with this GPU, by Ray's name of its type. Default: on all
            nodes. Examples: L4, H100.
        cuda_graphs: Replay updates on a GPU as CUDA graphs, with equal results: auto or off.
        concurrency: Most seed runs at a time. Default: as many as fit; on a cluster at least 64.
        study: Name of the study. Default: a name made from the other options.
        storage: Folder of all results, or s3://bucket/folder, gs://bucket/folder or
            az://container/folder.
        tracking: MLflow tracking URI, or none to disable MLflow. Default: MLFLOW_TRACKING_URI,
            then SQLite if the storage is a folder.
        register: Register the winner in MLflow's model registry under this name. Default: not
            registered. Example: sentiment.
        data_dir: Folder with the data sets (CoLA/, RTE/, …). Default: SCLSEARCH_DATA, then the
            Hugging Face hub.
        custom_method: `FILE.py:CLASS`, required to repeat a study whose method is in a file. Code
            that a storage names runs only with this consent, and only if its hash equals the
            stored one.
    """

    seeds: Annotated[Annotated[int, Interval(ge=1, le=MOST_SEEDS)] | None, Option(panel=SEARCH)] = (
        None
    )
    configs: Annotated[
        Annotated[int, Interval(ge=1, le=MOST_CONFIGS)] | None, Option(panel=SEARCH)
    ] = None
    rule: Annotated[str | None, Option(panel=SEARCH, more=True)] = None
    race: Annotated[
        Band | None, Option(panel=BUDGET, metavar="BAND|exact|off", kind=str | None)
    ] = None
    time_budget: Annotated[
        Annotated[float, BeforeValidator(parse_seconds), Ge(0)] | None,
        Option(panel=BUDGET, kind=str | None),
    ] = None
    test_scores: Annotated[TestScores, Option(panel=BUDGET, more=True)] = "auto"
    trial_timeout: Annotated[Seconds | None, Option(panel=BUDGET, more=True, kind=str | None)] = (
        None
    )
    retry_failed: Annotated[bool, Option(panel=BUDGET, more=True)] = False
    checkpoint_every: Annotated[
        Seconds | Literal["off"] | None,
        Option(panel=BUDGET, more=True, metavar="DURATION|off", kind=str | None),
    ] = None
    address: Annotated[
        Annotated[str, AfterValidator(check_address)] | None, Option(panel=RESOURCES, more=True)
    ] = None
    cpus_per_trial: Annotated[AtLeastOne, Option(panel=RESOURCES, more=True)] = 1
    gpus_per_trial: Annotated[
        Annotated[float, AfterValidator(gpu_share)] | None, Option(panel=RESOURCES, more=True)
    ] = None
    accelerator: Annotated[str | None, Option(panel=RESOURCES, more=True, metavar="TYPE")] = None
    cuda_graphs: Annotated[CudaGraphs, Option(panel=RESOURCES, more=True)] = "auto"
    concurrency: Annotated[AtLeastOne | None, Option(panel=RESOURCES, more=True)] = None
    study: Annotated[str | None, Option(panel=STORAGE)] = None
    storage: Annotated[Storage, Option(panel=STORAGE, envvar="SCLSEARCH_STORAGE", kind=str)] = (
        DEFAULT_STORAGE
    )
    tracking: Annotated[str | None, Option(panel=STORAGE, more=True)] = None
    register: Annotated[str | None, Option(panel=STORAGE, metavar="NAME")] = None
    data_dir: Annotated[Path | None, Option(panel=DATA, more=True)] = None
    custom_method: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class RunKeywords(TypedDict, total=False):
    """Keyword arguments for type checkers: names and types of the fields that are options."""

    storage: Storage
    tracking: str | None
    address: str | None
    cpus_per_trial: int
    gpus_per_trial: float | None
    accelerator: str | None
    cuda_graphs: CudaGraphs
    concurrency: int | None
    trial_timeout: float | str | None
    retry_failed: bool
    checkpoint_every: float | str | None


class StudyKeywords(RunKeywords, total=False):
    """Keyword arguments that a search, a training and the classifier share."""

    protocol: str | None
    scale: Literal["laptop"] | None
    folds: int | None
    fractions: Sequence[float] | None
    metric: str | None
    train_size: int | None
    shots: int | None
    unlabeled: Unlabeled | None
    space: Literal["practical", "paper"] | Path | str | None
    settings: Mapping[str, object]
    paraphrases: Path | str | None
    precision: Precision
    seeds: int | None
    rule: str | None


class SearchKeywords(TypedDict, total=False):
    """Keyword arguments that a search has and the training of one configuration lacks."""

    configs: int | None
    sampler: str
    start_from: str | None
    search_seed: int
    time_budget: float | str | None
    race: Band | None
    test_scores: TestScores


SEARCH_OPTIONS = tuple(SearchKeywords.__annotations__)


class ClassifierKeywords(StudyKeywords, SearchKeywords, total=False):
    """Keyword arguments of `sclsearch.Classifier`."""

    model: str | Path | None


class TaskKeywords(StudyKeywords, total=False):
    """Keyword arguments that `sclsearch.train` and `sclsearch.tune` share."""

    text: str | Sequence[str] | None
    label: str | None
    validation: RowSource | None
    test: RowSource | None
    extra: RowSource | None
    split_column: str | None
    regression: bool
    id: str | None
    delimiter: str | None
    data_dir: Path | str | None
    study: str | None
    register: str | None


class TrainKeywords(TaskKeywords, total=False):
    """Keyword arguments of `sclsearch.train`."""

    model: str | Path | None


class TuneKeywords(TaskKeywords, SearchKeywords, total=False):
    """Keyword arguments of `sclsearch.tune`."""

    model: str | Path | Sequence[str | Path] | None
