"""Options of the commands: groups that several commands share, and the parsers of their values.

A command takes a group as one parameter; `cli.command.grouped` makes an option of each field.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from sclsearch.errors import SclsearchError
from sclsearch.store.storage import DEFAULT_STORAGE

DATA, SEARCH, BUDGET = "Data", "Search", "Budget"
RESOURCES, STORAGE, OWN = "Resources", "Storage and tracking", "Own files"
SamplerName = Literal["tpe", "gp", "random", "grid"]
PrecisionName = Literal["auto", "fp32", "tf32", "bf16"]
TestScores = Literal["auto", "all", "winner"]


def _option(text: str, panel: str, *names: str, **details: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, **details)


def _more(text: str, panel: str, *names: str, **details: Any) -> Any:
    """Return an option that `--help-all` shows, but not `--help`."""
    return _option(text, panel, *names, hidden=True, **details)


StudyName = Annotated[str, typer.Argument(help="Name of a study, see `sclsearch ls studies`.")]
OwnMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="FILE.py:CLASS",
        help="Custom method of the study. Required if the method is defined in a file: code that "
        "stored data names runs only with this option.",
    ),
]
TASK_HELP = (
    "A name from `sclsearch ls tasks`, a CSV, TSV, JSON Lines or Parquet file, or a data set on "
    "the Hugging Face hub, hf:owner/name@revision."
)
TaskName = Annotated[str, _option(TASK_HELP, DATA)]
Scale = Annotated[
    str | None,
    _more(
        "Reduced scale. laptop: MiniLM, 3 seeds, at most 150 updates per stage, 200 validation "
        "and 500 test rows. Default: full scale.",
        DATA,
    ),
]
TrainSize = Annotated[
    int | None, _option("Training examples in total. Example: 100. Default: all.", DATA)
]
Shots = Annotated[
    int | None, _option("Training examples per class. Example: 16. Default: all.", DATA)
]
Unlabeled = Annotated[
    str | None,
    _more(
        "Number of texts for stages that read no labels, including the training examples. "
        "Further texts may be unlabeled rows of your file. Default: the training examples. "
        "Example: 500.",
        DATA,
        metavar="N|all",
    ),
]
Paraphrases = Annotated[
    Path | None,
    _more("File written by `sclsearch augment`. Default: paraphrases by EDA.", DATA),
]
DataDir = Annotated[
    Path | None,
    _more(
        "Folder with the data sets (CoLA/, RTE/, …). Default: SCLSEARCH_DATA, then the Hugging "
        "Face hub.",
        DATA,
    ),
]
StudyRule = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Selection rule: mean, best, top-K, or score/report. Default: the study's rule. "
        "Example: mean/best.",
    ),
]
StudySeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        help="Number of seeds to use, from the first. Default: all seeds of the study. Example: 5.",
    ),
]
TimeBudget = Annotated[
    str | None,
    _option(
        "Wall-clock time after which this command starts no seed run; exit code 3 if seed runs "
        "remain. Default: no limit. Examples: 45m, 12h.",
        BUDGET,
    ),
]
Storage = Annotated[
    str,
    _option(
        "Folder, s3://bucket/folder or gs://bucket/folder of all results.",
        STORAGE,
        envvar="SCLSEARCH_STORAGE",
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking",
        help="MLflow tracking URI. Default: MLFLOW_TRACKING_URI, then SQLite if the storage is a "
        "folder.",
    ),
]
Tracking = Annotated[
    str | None,
    _more(
        "MLflow tracking URI, or none to disable MLflow. Default: MLFLOW_TRACKING_URI, then "
        "SQLite if the storage is a folder.",
        STORAGE,
    ),
]
Register = Annotated[
    str | None,
    _option(
        "Register the winner in MLflow's model registry under this name. Default: not registered. "
        "Example: sentiment.",
        STORAGE,
        metavar="NAME",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyOptions:
    """Data, method and seeds of a study, for the commands that train one."""

    task: TaskName
    train_size: TrainSize = None
    shots: Shots = None
    method: Annotated[
        str,
        _option(
            "A name from `sclsearch ls methods`, or FILE.py:CLASS; for `tune` also several, "
            "separated by commas. Example: ce,scl.",
            SEARCH,
        ),
    ] = "scl"
    model: Annotated[
        str | None,
        _option(
            "Encoder: a name from `sclsearch ls models`, a folder or a hub name. Default: the "
            "protocol's.",
            SEARCH,
        ),
    ] = None
    seeds: Annotated[
        int | None,
        _option(
            "Seeds per configuration. Default: the protocol's; 2 to 5 for your own file.",
            SEARCH,
        ),
    ] = None
    epochs: Annotated[
        int | None, _option("Fixed number of epochs; the same as --set epochs=N.", SEARCH)
    ] = None
    learning_rate: Annotated[
        float | None, _option("Fixed learning rate; the same as --set learning_rate=X.", SEARCH)
    ] = None
    set_: Annotated[
        list[str] | None,
        _option(
            "Fix a hyperparameter; repeatable. `sclsearch ls methods METHOD` lists them. Example: "
            "tau=0.3.",
            SEARCH,
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None
    protocol: Annotated[
        str | None,
        _more(
            "Rules of splits, seeds and selection, see `sclsearch ls protocols`. Default: the "
            "protocol of the method's paper.",
            DATA,
        ),
    ] = None
    precision: Annotated[
        PrecisionName,
        _more(
            "Precision of matrix products. auto: bf16 on GPUs that are fast with it, else fp32. "
            "tf32: GPUs alone.",
            RESOURCES,
        ),
    ] = "auto"
    scale: Scale = None
    splits: Annotated[
        int | None,
        _more(
            "Number of random splits of the training rows into training and validation, which the "
            "seeds use in turn; only for protocol plain. A validation split is then not used. "
            "Example: 5.",
            DATA,
        ),
    ] = None
    unlabeled: Unlabeled = None
    paraphrases: Paraphrases = None
    rule: Annotated[
        str | None,
        _more(
            "Selection rule: mean, best, top-K, or score/report. Default: the protocol's rule. "
            "Example: mean/best.",
            SEARCH,
        ),
    ] = None
    study: Annotated[
        str | None,
        _option("Name of the study. Default: a name made from the other options.", STORAGE),
    ] = None
    register: Register = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions(StudyOptions):
    """The same for `train`, which can take them from another study."""

    task: Annotated[
        str | None,
        _option(f"{TASK_HELP} Required without --from.", DATA),
    ] = None  # type: ignore[assignment]
    method: Annotated[
        str | None,
        _option(
            "A name from `sclsearch ls methods`, or FILE.py:CLASS. Default: scl, or with --from "
            "the study's.",
            SEARCH,
        ),
    ] = None  # type: ignore[assignment]
    from_: Annotated[
        str | None,
        _option(
            "Take every hyperparameter of this study's winner, its method, task, model and "
            "protocol; other options replace these.",
            SEARCH,
            "--from",
            metavar="STUDY",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """Space, sampler and limits of a search."""

    configs: Annotated[
        int | None,
        _option("Configurations in total. Default: 20; 5 to 10 for your own file.", SEARCH),
    ] = None
    space: Annotated[
        str | None,
        _option(
            "Search space: practical (any encoder and data), paper (its grid), or a YAML file. "
            "Default: paper if encoder, task and amount of data are the paper's, else practical.",
            SEARCH,
            metavar="practical|paper|FILE",
        ),
    ] = None
    sampler: Annotated[
        SamplerName,
        _more("Sampler used after the published configurations.", SEARCH),
    ] = "tpe"
    search_seed: Annotated[
        int, _more("Seed of the sampler; it does not affect training.", SEARCH)
    ] = 0
    race: Annotated[
        str | None,
        _option(
            "After 2, 4 and 8 seeds, go on with the best third of the configurations and those "
            "within BAND standard errors of the leader. exact: also with all that can still win. "
            "Default: 2.5 (3.5 under top-k) from 6 configurations x 5 seeds on, else off.",
            BUDGET,
            metavar="BAND|exact|off",
        ),
    ] = None
    test_scores: Annotated[
        TestScores,
        _more(
            "Seed runs to test: all, or those of the winner, at the end. auto: winner if a test "
            "takes over a quarter of a seed run's time and has over 1,000 rows.",
            BUDGET,
        ),
    ] = "auto"
    time_budget: TimeBudget = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions:
    """Resources, storage and output of every command that trains."""

    trial_timeout: Annotated[
        str | None,
        _more(
            "Treat a seed run as hung after this time. Default: no limit. Examples: 45m, 12h.",
            BUDGET,
        ),
    ] = None
    retry_failed: Annotated[
        bool, _more("Train failed seed runs again.", BUDGET, "--retry-failed")
    ] = False
    data_dir: DataDir = None
    storage: Storage = DEFAULT_STORAGE
    tracking: Tracking = None
    address: Annotated[
        str | None,
        _more(
            "Ray cluster, on one of its machines: auto or HOST:PORT. Default: start Ray here.",
            RESOURCES,
        ),
    ] = None
    cpus_per_trial: Annotated[int, _more("CPU cores per seed run.", RESOURCES, min=1)] = 1
    gpus_per_trial: Annotated[
        float | None,
        _more(
            "GPUs per seed run, or the fraction 1/k of one. Default: 1 if there is a GPU.",
            RESOURCES,
            min=0,
        ),
    ] = None
    cuda_graphs: Annotated[
        Literal["auto", "off"],
        _more(
            "Replay updates on a GPU as CUDA graphs, with equal results: auto or off.", RESOURCES
        ),
    ] = "auto"
    concurrency: Annotated[
        int | None,
        _more(
            "Most seed runs at a time. Default: as many as fit; on a cluster at least 64.",
            RESOURCES,
            min=1,
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan; do not train.")] = (
        False
    )
    json_: Json = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFileOptions:
    """Columns, splits and metric of a user's own file."""

    text: Annotated[
        list[str] | None,
        _option(
            "Column of the text; pass it twice for text pairs. Default: text or sentence, or the "
            "longer of two columns.",
            OWN,
        ),
    ] = None
    label: Annotated[
        str | None, _option("Column of the label. Default: label, or the other of two.", OWN)
    ] = None
    id: Annotated[
        str | None,
        _more("Column that identifies a row in reports. Default: the row's number.", OWN),
    ] = None
    delimiter: Annotated[
        str | None,
        _more("Delimiter of a CSV file: a character or tab. Default: detected.", OWN),
    ] = None
    validation: Annotated[Path | None, _more("File with validation rows.", OWN)] = None
    test: Annotated[Path | None, _more("File with test rows.", OWN)] = None
    split_column: Annotated[
        str | None,
        _more("Column of each row's split: train, validation or test.", OWN),
    ] = None
    fractions: Annotated[
        str | None,
        _more("Fractions of training, validation and test rows. Example: 0.8,0.1,0.1.", OWN),
    ] = None
    metric: Annotated[
        str | None,
        _more("accuracy, mcc, f1, macro_f1, pearson or spearman. Default: accuracy.", OWN),
    ] = None
    regression: Annotated[bool, _more("The labels are numbers.", OWN, "--regression")] = False


def given(context: typer.Context, name: str) -> bool:
    """Return True if a parameter is on the command line, even with its default value."""
    return "COMMANDLINE" in str(context.get_parameter_source(name))


def parse_unlabeled(text: str | None) -> int | Literal["all"] | None:
    """Return the value of `--unlabeled`: the number of texts for stages without labels, or `all`.

    Raises:
        SclsearchError: The text is neither `all` nor a number.
    """
    if text is None:
        return None
    if text == "all":
        return "all"
    if not text.isdecimal():
        raise SclsearchError(f"--unlabeled: must be a number of texts or all, got {text!r}.")
    return int(text)


def parse_settings(pairs: Sequence[str] | None, **others: object) -> dict[str, object]:
    """Return the hyperparameters of `--set KEY=VALUE` and of options such as `--epochs`.

    A value of a pair is YAML. `others` may be None, for options that are not given.

    Raises:
        SclsearchError: A pair has no `=`, no key, or a value that YAML cannot read, or a
            hyperparameter is set twice.
    """
    from sclsearch.spaces.load import load_yaml

    values = {name: value for name, value in others.items() if value is not None}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise SclsearchError(f"--set: must be KEY=VALUE, as in --set tau=0.3, got {pair!r}.")
        if key in values:
            raise SclsearchError(f"--set {key}: is set twice. Set it once.")
        try:
            values[key] = load_yaml(text)
        except ValueError as error:
            raise SclsearchError(f"--set {pair[:60]}: {error}.") from error
    return values


def parse_fractions(text: str | None) -> tuple[float, float, float] | None:
    """Return the fractions of training, validation and test rows.

    Raises:
        SclsearchError: The text is not three numbers.
    """
    if text is None:
        return None
    try:
        train, validation, test = (float(part) for part in text.split(","))
    except ValueError as error:
        raise SclsearchError(
            f"--fractions: must be three numbers, as in 0.8,0.1,0.1, got {text!r}."
        ) from error
    return train, validation, test
