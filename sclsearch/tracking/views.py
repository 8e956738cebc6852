"""What MLflow is shown: plain records, from which the same runs come out however often."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StudyView:
    """A study, the outermost run.

    Attributes:
        name: The study as MLflow knows it, `name@mark`; its run has the name alone.
        params: What identifies the study; immutable once shown.
        tags: May change from one showing to the next.
        artifacts: File name to what it holds as JSON.
    """

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    artifacts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigurationView:
    """A configuration, a run inside its study's.

    Attributes:
        study: The study as MLflow knows it.
        number: Number of the configuration in the study.
        params: The values of its fields; immutable once shown.
        tags: May change from one showing to the next.
    """

    study: str
    number: int
    params: Mapping[str, object] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SeedRunView:
    """A seed run that has ended, a run inside its configuration's.

    Attributes:
        study: The study as MLflow knows it.
        configuration: Number of the configuration.
        replicate: Number of the replicate.
        key: Its name in the run store.
        params: What distinguishes it from its siblings.
        tags: For example the cause of a failure.
        evaluations: Pairs of update and metrics, in order.
        summary: Metrics of the whole, shown at the last update.
        failed: Whether it ended without a result.
        started: Unix time in seconds; None where it is not known.
        seconds: How long it took.
        artifacts: File name to what it holds as JSON.
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
    """Metrics of a configuration or of a study, as they stand now.

    Attributes:
        study: The study as MLflow knows it.
        configuration: Number of the configuration; None for the study itself.
        metrics: A value that differs from the one shown becomes the metric's next step.
        finished: Whether this ends the run.
    """

    study: str
    configuration: int | None
    metrics: Mapping[str, float]
    finished: bool = False


View = StudyView | ConfigurationView | SeedRunView | ScoreView
