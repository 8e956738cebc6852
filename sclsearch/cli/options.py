"""Command line options that several commands share, and the parsers of their values."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from sclsearch.errors import SclsearchError

OwnMethod = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="FILE.py:CLASS",
        help="Custom method of the study. Required if the method is defined in a file: code that "
        "stored data names runs only with this option.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help="Fine-tuning method: a name from `sclsearch ls methods`, or FILE.py:CLASS. Example: "
        "scl."
    ),
]
TaskName = Annotated[
    str,
    typer.Option(
        help="Task: a name from `sclsearch ls tasks`, or a CSV, TSV, JSON Lines or Parquet file. "
        "Example: cola."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Encoder: an alias from `sclsearch ls models`, a folder or a hub name. Default: the "
        "protocol's encoder. Example: minilm."
    ),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        help="Protocol for data splits and selection, see `sclsearch ls protocols`. Default: the "
        "protocol of the method's paper. Example: plain.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="Reduced scale. laptop: MiniLM, 3 seeds, and per stage at most 150 updates; at most "
        "200 validation and 500 test rows. Default: full scale."
    ),
]
Splits = Annotated[
    int | None,
    typer.Option(
        help="Number of random splits into training and validation rows, which the seeds use in "
        "turn; only for protocol plain. Example: 5."
    ),
]
TrainSize = Annotated[
    int | None, typer.Option(help="Few-shot: training examples in total. Example: 100.")
]
Shots = Annotated[
    int | None, typer.Option(help="Few-shot: training examples per class. Example: 16.")
]
Unlabeled = Annotated[
    str | None,
    typer.Option(
        "--unlabeled",
        metavar="N|all",
        help="Number of texts for stages that read no labels, such as post-training. It counts "
        "the training examples; further texts may be rows of your own file without a label. "
        "Default: the training examples only. Example: 500.",
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option(
        "--rule",
        help="Selection rule: mean, best, top-K, or score/report. Default: the protocol's rule. "
        "Example: mean/best.",
    ),
]
Race = Annotated[
    float | None,
    typer.Option(
        metavar="RISK",
        help="Skip the remaining seeds of configurations that will almost surely lose. RISK is "
        "the accepted probability of missing the true winner, estimated by a model; 0 skips only "
        "configurations that cannot win. Default: off. Example: 0.05.",
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
Seeds = Annotated[
    int | None,
    typer.Option(help="Seeds per configuration. Default: the protocol's number. Example: 5."),
]
StudySeeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        help="Number of seeds to use, from the first. Default: all seeds of the study. Example: 5.",
    ),
]
Paraphrases = Annotated[
    Path | None,
    typer.Option(
        help="File with paraphrases of the training texts, as written by `sclsearch augment`. "
        "Default: paraphrases by EDA."
    ),
]
Study = Annotated[
    str | None,
    typer.Option(help="Name of the study. Default: a name derived from its specification."),
]
Storage = Annotated[
    str,
    typer.Option(
        help="Storage of seed runs and studies: a folder, s3://bucket/folder or gs://bucket/folder."
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the data sets (CoLA/, RTE/, …). Default: SCLSEARCH_DATA, then the "
        "Hugging Face hub."
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        help="MLflow tracking URI, or none to disable MLflow. Default: MLFLOW_TRACKING_URI, then "
        "SQLite if the storage is a folder."
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
Address = Annotated[
    str | None,
    typer.Option(
        help="Address of a Ray cluster, on one of its machines: auto or HOST:PORT. Default: start "
        "Ray on this machine."
    ),
]
Cpus = Annotated[int, typer.Option("--cpus-per-trial", min=1, help="CPU cores per seed run.")]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial",
        min=0,
        help="GPUs per seed run, or the fraction 1/k of one GPU. Default: 1 if there is a GPU. "
        "Example: 0.5.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Maximum number of concurrent seed runs. Default: as many as fit; on a cluster at "
        "least 64.",
    ),
]
TimeBudget = Annotated[
    str | None,
    typer.Option(
        help="Start no seed run after this time; exit code 3 if seed runs remain. Default: no "
        "limit. Examples: 90 (seconds), 45m, 12h, 2d."
    ),
]
TrialTimeout = Annotated[
    str | None,
    typer.Option(
        help="Treat a seed run as hung after this time. Default: no limit. Examples: 90 (seconds), "
        "45m, 12h."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set a hyperparameter to a fixed value; repeatable. Example: tau=0.3.",
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Train failed seed runs again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan without training.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]

OWN = "Your own file"
Text = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=OWN, help="Column of the text; pass it twice for text pairs."),
]
Label = Annotated[str | None, typer.Option(rich_help_panel=OWN, help="Column of the label.")]
Validation = Annotated[
    Path | None, typer.Option(rich_help_panel=OWN, help="File with validation rows.")
]
Test = Annotated[Path | None, typer.Option(rich_help_panel=OWN, help="File with test rows.")]
SplitColumn = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OWN, help="Column of the split of each row: train, validation or test."
    ),
]
Fractions = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OWN,
        help="Fractions of training, validation and test rows. Example: 0.8,0.1,0.1.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=OWN, help="Metric: accuracy, mcc, f1, macro_f1, pearson or spearman."
    ),
]
Regression = Annotated[
    bool, typer.Option("--regression", rich_help_panel=OWN, help="Regression: labels are numbers.")
]
OWN_FILES = (
    "text",
    "label",
    "validation",
    "test",
    "split_column",
    "fractions",
    "metric",
    "regression",
)
SamplerName = Literal["tpe", "random", "grid"]
SECONDS: Mapping[str, float] = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def given(context: typer.Context, name: str) -> bool:
    """Return True if a parameter is on the command line, even with its default value."""
    return "COMMANDLINE" in str(context.get_parameter_source(name))


def seconds(text: str | None, option: str) -> float | None:
    """Return a duration such as `90`, `45m` or `12h` in seconds.

    Raises:
        SclsearchError: The text is not a positive number with an optional unit.
    """
    if text is None:
        return None
    unit = text[-1:] if text[-1:] in SECONDS else "s"
    try:
        number = float(text.removesuffix(unit)) * SECONDS[unit]
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise SclsearchError(
            f"{option} {text}: it must be a positive number of seconds, or one with m, h or d."
        )
    return number


def unlabeled(text: str | None) -> int | Literal["all"] | None:
    """Return the value of `--unlabeled`: the number of texts for stages without labels, or `all`.

    Raises:
        SclsearchError: The text is neither `all` nor a number.
    """
    if text is None:
        return None
    if text == "all":
        return "all"
    if not text.isdecimal():
        raise SclsearchError(f"--unlabeled {text}: it must be a number of texts, or all.")
    return int(text)


def settings(pairs: Sequence[str] | None) -> dict[str, object]:
    """Return the hyperparameters of `--set KEY=VALUE` options, with values parsed as YAML.

    Raises:
        SclsearchError: A pair has no `=`, no key, or a value that YAML cannot read.
    """
    from sclsearch.spaces.yaml import load_yaml

    values: dict[str, object] = {}
    for pair in pairs or ():
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SclsearchError(f"--set {pair}: it must be KEY=VALUE, as in --set tau=0.3.")
        if key.strip() in values:
            raise SclsearchError(f"--set {key.strip()}: it must be set once, but it is set twice.")
        try:
            values[key.strip()] = load_yaml(text)
        except ValueError as error:
            raise SclsearchError(f"--set {pair[:60]}: {error}.") from error
    return values


def fractions(text: str | None) -> tuple[float, float, float] | None:
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
            f"--fractions {text}: it must be three numbers, as in 0.8,0.1,0.1."
        ) from error
    return train, validation, test
