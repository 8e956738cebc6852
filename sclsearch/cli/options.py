"""Options that several commands share."""

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
        help="Required if the study's method is in a file: code named by stored data runs only so.",
    ),
]
Method = Annotated[
    str, typer.Option(help="How it is fine-tuned: `sclsearch ls methods`, or FILE.py:CLASS.")
]
TaskName = Annotated[
    str, typer.Option(help="A task, `sclsearch ls tasks`, or a CSV, TSV, JSON Lines, Parquet file.")
]
Model = Annotated[
    str | None,
    typer.Option(help="Alias, folder or hub name of the encoder. Default: the protocol's."),
]
ProtocolName = Annotated[
    str | None,
    typer.Option("--protocol", help="How it is split and selected. Default: the paper's."),
]
Scale = Annotated[
    str | None,
    typer.Option(help="laptop: MiniLM, 3 seeds, at most 150 updates, 200 and 500 rows."),
]
Splits = Annotated[
    int | None,
    typer.Option(
        help="Random splits into training and validation rows, in turn by seed; protocol plain."
    ),
]
TrainSize = Annotated[int | None, typer.Option(help="Training examples in total; few-shot.")]
Shots = Annotated[int | None, typer.Option(help="Training examples of each class; few-shot.")]
Unlabeled = Annotated[
    str | None,
    typer.Option(
        "--unlabeled",
        metavar="N|all",
        help="Texts of the stages that read no labels, as post-training: the training examples "
        "and others, in your own file also rows without a label. Default: the training examples.",
    ),
]
RuleName = Annotated[
    str | None,
    typer.Option("--rule", help="mean, best, top-K, or score/report. Default: the protocol's."),
]
Race = Annotated[
    float | None,
    typer.Option(
        metavar="RISK",
        help="Leave out seeds of configurations that can hardly win: the probability, by a model, "
        "that another would win with them, at most, as 0.05; 0 leaves out what cannot win.",
    ),
]
StudyRule = Annotated[
    str | None,
    typer.Option("--rule", help="mean, best, top-K, or score/report. Default: the study's."),
]
Seeds = Annotated[int | None, typer.Option(help="Seeds a configuration. Default: the protocol's.")]
StudySeeds = Annotated[
    int | None, typer.Option("--seeds", help="The first so many. Default: all of the study's.")
]
Paraphrases = Annotated[
    Path | None, typer.Option(help="Paraphrases of the training texts. Default: by EDA.")
]
Study = Annotated[str | None, typer.Option(help="Name. Default: made from what is searched.")]
Storage = Annotated[
    str, typer.Option(help="Folder of runs and studies, s3://bucket/folder or gs://bucket/folder.")
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with CoLA/, RTE/, … Default: SCLSEARCH_DATA, then the hub."),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        help="MLflow URI, or none. Default: MLFLOW_TRACKING_URI, then SQLite in a storage folder."
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking",
        help="MLflow URI. Default: MLFLOW_TRACKING_URI, then SQLite in a storage folder.",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="From a machine of a Ray cluster: auto or HOST:PORT. Default: Ray here."),
]
Cpus = Annotated[int, typer.Option("--cpus-per-trial", min=1, help="Cores of a seed run.")]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-trial", min=0, help="GPUs of a seed run, or 1/k. Default: 1 if there is one."
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, help="Seed runs at a time. Default: as many as fit; 64 of a cluster."),
]
TimeBudget = Annotated[
    str | None,
    typer.Option(help="No seed run starts after it, 90, 45m, 12h, 2d; exit code 3 if any is left."),
]
TrialTimeout = Annotated[
    str | None, typer.Option(help="A seed run that takes longer has hung: 90, 45m, 12h.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Sets a field; repeatable.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Train failed seed runs again.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]

OWN = "Your own file"
Text = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=OWN, help="Column of the text; twice for a pair."),
]
Label = Annotated[str | None, typer.Option(rich_help_panel=OWN, help="Column of the label.")]
Validation = Annotated[
    Path | None, typer.Option(rich_help_panel=OWN, help="File with validation rows.")
]
Test = Annotated[Path | None, typer.Option(rich_help_panel=OWN, help="File with test rows.")]
SplitColumn = Annotated[
    str | None,
    typer.Option(rich_help_panel=OWN, help="Column that says train, validation or test."),
]
Fractions = Annotated[
    str | None, typer.Option(rich_help_panel=OWN, help="Train,validation,test: 0.8,0.1,0.1.")
]
Metric = Annotated[
    str | None,
    typer.Option(rich_help_panel=OWN, help="accuracy, mcc, f1, macro_f1, pearson, spearman."),
]
Regression = Annotated[
    bool, typer.Option("--regression", rich_help_panel=OWN, help="Labels are scores.")
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
    """Returns whether a parameter was given, though it may have the value of its default."""
    return "COMMANDLINE" in str(context.get_parameter_source(name))


def seconds(text: str | None, option: str) -> float | None:
    """Returns a duration in seconds.

    Raises:
        SclsearchError: It is no positive number with an optional unit.
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
    """Returns how many texts the stages have that read no labels.

    Raises:
        SclsearchError: It is neither `all` nor a number.
    """
    if text is None:
        return None
    if text == "all":
        return "all"
    if not text.isdecimal():
        raise SclsearchError(f"--unlabeled {text}: it must be a number of texts, or all.")
    return int(text)


def settings(pairs: Sequence[str] | None) -> dict[str, object]:
    """Returns the fields that `--set KEY=VALUE` sets; a value is read as YAML.

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
    """Returns the shares of train, validation and test.

    Raises:
        SclsearchError: They are not three numbers.
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
