"""MLflow records of studies, configurations and seed runs; repeated writes give equal runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StudyView:
    """MLflow record of a study, the outermost run.

    Attributes:
        name: The study's name in MLflow, `name@mark`; its run has only the name.
        params: Identity of the study; immutable once written.
        tags: The tags; they may change between writes.
        artifacts: JSON content of each file, by file name.
    """

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigurationView:
    """MLflow record of a configuration, a child run of its study's run.

    Attributes:
        study: The study's name in MLflow, `name@mark`.
        number: Number of the configuration in the study.
        params: The values of its fields; immutable once written.
        tags: The tags; they may change between writes.
    """

    study: str
    number: int
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeedRunView:
    """MLflow record of a finished seed run, a child run of its configuration's run.

    Attributes:
        study: The study's name in MLflow, `name@mark`.
        configuration: Number of the configuration.
        replicate: Number of the replicate.
        key: Key of the seed run in the run store.
        params: Parameters that distinguish it from the configuration's other seed runs.
        tags: For example the cause of a failure.
        evaluations: Pairs of update number and metrics, in order.
        summary: Metrics of the whole seed run, logged at the last update.
        failed: Whether the seed run ended without a result.
        started: Unix time in seconds; None if unknown.
        seconds: Duration in seconds.
        artifacts: JSON content of each file, by file name.
    """

    study: str
    configuration: int
    replicate: int
    key: str
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    evaluations: tuple[tuple[int, Mapping[str, float]], ...] = ()
    summary: Mapping[str, float] = field(default_factory=dict)
    failed: bool = False
    started: float | None = None
    seconds: float = 0.0
    artifacts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoreView:
    """MLflow record of the current metrics of a configuration or study.

    Attributes:
        study: The study's name in MLflow, `name@mark`.
        configuration: Number of the configuration; None for the study itself.
        metrics: A value that differs from the logged one becomes the metric's next step.
        finished: Whether this record ends the run.
    """

    study: str
    configuration: int | None
    metrics: Mapping[str, float]
    finished: bool = False


View = StudyView | ConfigurationView | SeedRunView | ScoreView
