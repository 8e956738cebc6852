"""What a user may ask of a search, typed; the command line's options are its fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Gt, Interval

from sclsearch.arguments import check_fields
from sclsearch.protocols.draws import Unlabeled
from sclsearch.store.storage import DEFAULT_STORAGE, Storage
from sclsearch.tasks.custom import CustomTask

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

Ending = Literal["complete", "interrupted", "out of time"]
Sampler = Literal["tpe", "random", "grid"]
DEFAULT_CONFIGS = 20
NO_TRACKING = "none"
MOST_SEEDS = 1_000
MOST_CONFIGS = 100_000
# Fields that no command has as an option of their name.
AtLeastOne = Annotated[int, Ge(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySpec:
    """What is searched or trained: together the identity of a study. Paths may be given as text.

    Attributes:
        method: Name in `METHODS`, a user's own as `FILE.py:CLASS`, or its class.
        task: Name in `TASKS`, or a user's own files.
        model: Alias, folder or name on the hub; None takes the protocol's.
        protocol: Name in `PROTOCOLS`; None takes the task's, or the method's paper's.
        scale: Name in `SCALES`: the protocol with fewer rows, updates and repetitions.
        splits: So many random splits of the training rows into training and validation, in turn by
            replicate, for protocol plain; None takes the task's own split.
        fresh: So many replicates beyond the protocol's, instead of its own.
        first_fresh: Number of the first of them; None, or less than the protocol has, is the
            first that is not its own.
        crossed: Seeds of `subset`, `initialisation` and `order`, all combined, instead of the
            protocol's replicates.
        train_size: N training examples in total.
        shots: K training examples of each class.
        unlabeled: N texts in all, or `all` there are, the training examples among them, for the
            stages that read no labels; None for the training examples alone.
        space: A space file; None takes the shipped one.
        settings: Fields set by hand; a set field is not searched.
        sampler: Who proposes configurations after the published ones.
        search_seed: Seed of the sampler and of nothing else.
        paraphrases: File with paraphrases of each training text, for methods and protocols that
            read them; None makes them by EDA.
        searched: False leaves every field at its default or setting: one configuration.
    """

    method: "str | type[Method]"
    task: str | CustomTask
    model: str | Path | None = None
    protocol: str | None = None
    scale: str | None = None
    splits: int | None = None
    fresh: int | None = None
    first_fresh: int | None = None
    crossed: Mapping[str, int] | None = None
    train_size: int | None = None
    shots: int | None = None
    unlabeled: Unlabeled | None = None
    space: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    sampler: Sampler = "tpe"
    search_seed: int = 0
    paraphrases: Path | None = None
    searched: bool = True

    def __post_init__(self) -> None:
        """Raises SclsearchError if a field is not of its type."""
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a study is run; no seed run's figures depend on it, but that a GPU is not a CPU.

    Paths may be given as text.

    Attributes:
        study: The study's name; None makes one from its identity.
        storage: The folder of runs and studies, or `s3://bucket/folder`, `gs://bucket/folder`.
        data_dir: Folder with the tasks' own files; None takes SCLSEARCH_DATA, then the hub.
        tracking: MLflow URI; None takes MLFLOW_TRACKING_URI, then SQLite in a storage that is a
            folder; `none` leaves MLflow out.
        configs: Configurations in total; None is 20, or all of a smaller space.
        seeds: Replicates of each configuration; None is the protocol's.
        rule: How seeds are counted; None is the protocol's, whatever an earlier start took.
        race: Leaves out seeds of configurations that can hardly win: the probability, by a model
            and at the most, that another would win with all of them. 0 leaves out what cannot win,
            None nothing. What TPE proposes depends then on the order in which seed runs end.
        address: Of a Ray cluster; None starts Ray on this machine.
        cpus_per_trial: CPU cores, and torch threads, of a seed run.
        gpus_per_trial: GPUs of a seed run, or one k-th; None is 1 where there is one.
        concurrency: Seed runs at a time; None is as many as fit, of a cluster at least 64.
        time_budget: Seconds after which no further seed run starts.
        trial_timeout: Seconds after which a seed run counts as hung.
        retry_failed: Train failed seed runs again.
        custom_method: `FILE.py:CLASS`, required to repeat a study whose method is in a file: code
            that a storage names runs only with this consent, and only if its hash is the stored
            one.
    """

    study: str | None = None
    storage: Storage = DEFAULT_STORAGE
    data_dir: Path | None = None
    tracking: str | None = None
    configs: Annotated[int, Interval(ge=1, le=MOST_CONFIGS)] | None = None
    seeds: Annotated[int, Interval(ge=1, le=MOST_SEEDS)] | None = None
    rule: str | None = None
    race: Annotated[float, Interval(ge=0, lt=1)] | None = None
    address: str | None = None
    cpus_per_trial: AtLeastOne = 1
    gpus_per_trial: Annotated[float, Ge(0)] | None = None
    concurrency: AtLeastOne | None = None
    time_budget: Annotated[float, Ge(0)] | None = None
    trial_timeout: Annotated[float, Gt(0)] | None = None
    retry_failed: bool = False
    custom_method: str | None = None

    def __post_init__(self) -> None:
        """Raises SclsearchError if a field is not of its type or out of its bounds."""
        check_fields(self)
