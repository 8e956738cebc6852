"""A method's stages in their order."""

from dataclasses import dataclass

from sclsearch.methods.base import Method, Stage, Training


@dataclass(frozen=True, slots=True)
class Turn:
    """A stage at its place among those of a method.

    Attributes:
        stage: The stage.
        before: Number of stages before it.
        after: Number of stages after it.
    """

    stage: Stage
    before: int
    after: int

    @property
    def first(self) -> bool:
        """Whether the encoder is as it was loaded."""
        return self.before == 0

    @property
    def last(self) -> bool:
        """Whether it is evaluated."""
        return self.after == 0

    def purpose(self, what: str) -> str:
        """Returns the name of its random stream for something, e.g. its `order`.

        It tells stages by their distance from the end, not by name, so that methods are paired:
        of one replicate, the last stages of all of them begin with the same head, where they
        have the same, and see rows in the same order.
        """
        return f"{what}/{self.after}"


def turns_of(method: Method, training: Training) -> tuple[Turn, ...]:
    """Returns a method's stages in their order."""
    stages = method.stages(training)
    return tuple(
        Turn(stage, number, len(stages) - 1 - number) for number, stage in enumerate(stages)
    )
