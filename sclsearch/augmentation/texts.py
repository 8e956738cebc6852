"""The texts that are paraphrased: what the replicates of a protocol train on, or all there are."""

from dataclasses import dataclass
from typing import Any

from sclsearch.errors import SclsearchError, lookup
from sclsearch.protocols import PROTOCOLS, cmlm
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.repeated import fresh
from sclsearch.tasks import TASKS
from sclsearch.tasks.base import TaskData, Texts
from sclsearch.tasks.clue import CLUE
from sclsearch.tasks.fewclue import FEWCLUE
from sclsearch.tasks.paraphrases import READ

# CSSL, which reads paraphrases, follows it unless it is told another.
FEW_SHOT = cmlm.FEW_SHOT
# Of the papers' methods the first to read paraphrases, and the one whose training rows they join.
READER, JOINED = "cssl", "scl"
CHINESE = frozenset((*CLUE, *FEWCLUE))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Which training texts of a task.

    Attributes:
        task: Name of the task.
        protocol: Whose replicates draw them; None for all.
        size: Training examples of a replicate.
        replicates: How many replicates draw; 0 without a protocol.
    """

    task: str
    protocol: Protocol | None
    size: Size | None
    replicates: int

    @property
    def header(self) -> dict[str, Any]:
        """What the file says of it."""
        return {
            "task": self.task,
            "size": str(self.size or "full"),
            "protocol": self.protocol and self.protocol.name,
            "replicates": self.replicates,
        }

    @property
    def options(self) -> list[str]:
        """What `tune` must be told to train on these texts."""
        told = ["--method", JOINED if self.joined else READER, "--task", self.task]
        if self.protocol not in (None, FEW_SHOT):
            told += ["--protocol", str(self.header["protocol"])]
        if self.size is not None:
            few = ("--train-size", self.size.total), ("--shots", self.size.per_class)
            told += [str(word) for option in few if option[1] is not None for word in option]
        if self.protocol and self.replicates < self.protocol.replicates:
            told += ["--seeds", str(self.replicates)]
            told += ["--rule", "mean"] if self.replicates < self.protocol.rule.least else []
        return told

    @property
    def joined(self) -> int:
        """Paraphrases of each text that join the training rows."""
        return self.protocol.joined if self.protocol else 0

    def views(self, asked: int | None) -> int:
        """Returns how many paraphrases each text gets: as asked, or as many as are read.

        Raises:
            SclsearchError: More are read than asked for.
        """
        if asked is not None and asked < self.joined:
            raise SclsearchError(
                f"--views {asked}: it must be at least {self.joined}, which is how many "
                f"{self.header['protocol']} joins to each training row. Leave it out."
            )
        return asked or max(READ, self.joined)

    def check_english(self, backend: str) -> None:
        """Refuses a task in another language.

        Raises:
            SclsearchError: Its texts are Chinese.
        """
        if self.task in CHINESE:
            raise SclsearchError(
                f"--backend {backend}: the texts must be English, but those of {self.task} are "
                "Chinese. Take --backend eda."
            )

    def texts(self, data: TaskData) -> tuple[Texts, ...]:
        """Returns each text once, without the blank ones.

        Raises:
            SclsearchError: The task has too few rows for the size, or classes for the protocol.
        """
        if self.protocol is None:
            rows = iter(data.splits["train"].texts)
        else:
            data = self.protocol.data(data)
            own = min(self.replicates, self.protocol.replicates)
            numbered = [self.protocol.replicate(number) for number in range(own)]
            if further := self.replicates - own:
                again = fresh(self.protocol, further)
                numbered += [again.replicate(number) for number in range(further)]
            trained = [self.protocol.parts(data, self.size, one).train for one in numbered]
            rows = (data.splits[part.split].texts[row] for part in trained for row in part.index)
        return tuple(row for row in dict.fromkeys(rows) if any(text.strip() for text in row))


def find_drawn(
    task: str,
    protocol: str | None,
    train_size: int | None,
    shots: int | None,
    replicates: int | None,
) -> Drawn:
    """Returns which texts the options mean.

    Raises:
        SclsearchError: A name is unknown, or the options do not fit each other.
    """
    lookup(TASKS, task, "task")
    size = Size.of(train_size, shots)
    chosen = FEW_SHOT if size else None
    if protocol is not None:
        chosen = lookup(PROTOCOLS, protocol, "protocol")
        chosen.check_size(size, FEW_SHOT.name)
    if chosen is None and replicates is not None:
        raise SclsearchError(
            "--replicates: it must come with a training size or a protocol, but there is neither, "
            "and all training texts are taken. Leave it out."
        )
    count = replicates or (chosen.replicates if chosen else 0)
    return Drawn(task, chosen, size, count)
