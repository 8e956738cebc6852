"""Selection of the texts to paraphrase: a protocol's training rows, or all rows of a task."""

from dataclasses import dataclass
from typing import Any

from sclsearch.errors import SclsearchError
from sclsearch.protocols import PROTOCOLS, find_protocol
from sclsearch.protocols.base import Protocol, Size
from sclsearch.protocols.rows import Unlabeled, check_unlabeled, draw_rows
from sclsearch.protocols.variants import for_rows, fresh
from sclsearch.tasks import CORPORA, TASKS, as_task
from sclsearch.tasks.base import TaskData, Texts
from sclsearch.tasks.custom import CustomTask, as_options
from sclsearch.tasks.paraphrases import READ

# Default protocol of CSSL, which reads paraphrases.
FEW_SHOT = PROTOCOLS["cmlm-fewshot"]
READER = "cssl"


@dataclass(frozen=True, slots=True)
class TextSelection:
    """Selection of a task's training texts.

    Attributes:
        task: Name of the task, or a user's own files.
        protocol: Protocol whose replicates draw the texts; None selects all.
        size: Training examples of a replicate.
        replicates: Number of replicates; 0 without a protocol.
        unlabeled: Texts of a replicate's stages without labels; None for its training examples.
    """

    task: str | CustomTask
    protocol: Protocol | None
    size: Size | None
    replicates: int
    unlabeled: Unlabeled | None = None

    @property
    def name(self) -> str:
        """Name of the task."""
        return self.task if isinstance(self.task, str) else self.task.task_name

    @property
    def default_protocol(self) -> Protocol | None:
        """Default protocol of `tune`; None if it depends on the method."""
        if self.size is not None:
            return FEW_SHOT
        return None if isinstance(self.task, str) else PROTOCOLS["plain"]

    @property
    def header(self) -> dict[str, Any]:
        """Entries about the selection in the file's header."""
        header = {
            "task": self.name,
            "size": str(self.size or "full"),
            "protocol": self.protocol and self.protocol.name,
            "replicates": self.replicates,
        }
        return header if self.unlabeled is None else {**header, "unlabeled": self.unlabeled}

    @property
    def file_name(self) -> str:
        """Name of the file of these texts, without the back-end."""
        words = [self.name, str(self.size or "full")]
        if self.protocol and self.protocol is not self.default_protocol:
            words.append(self.protocol.name)
        if self.unlabeled is not None:
            words.append(f"unlabeled-{self.unlabeled}")
        return "-".join(words)

    @property
    def options(self) -> list[str]:
        """Options of `tune` for training on these texts.

        The method is one that reads paraphrases, or one that trains on them as further rows.
        """
        method = READER
        if self.joined:
            task = TASKS[self.task] if isinstance(self.task, str) else self.task
            method = "ce" if task.regression else "scl"
        words = ["--method", method, *as_options(self.task)]
        if self.protocol and self.protocol is not self.default_protocol:
            words += ["--protocol", self.protocol.name]
        if self.size is not None:
            sizes = {"--train-size": self.size.total, "--shots": self.size.per_class}
            words += [w for name, n in sizes.items() if n is not None for w in (name, str(n))]
        if self.unlabeled is not None:
            words += ["--unlabeled", str(self.unlabeled)]
        if self.protocol and self.replicates < self.protocol.replicates:
            words += ["--seeds", str(self.replicates)]
            words += ["--rule", "mean"] if self.replicates < self.protocol.rule.least else []
        return words

    @property
    def joined(self) -> int:
        """Number of paraphrases per text that are added to the training rows."""
        return self.protocol.joined if self.protocol else 0

    def views(self, requested: int | None) -> int:
        """Return the number of paraphrases per text: as requested, or as training requires."""
        if requested is not None and requested < self.joined:
            raise SclsearchError(
                f"--views: must be at least {self.joined}, the number that "
                f"{self.header['protocol']} adds to each training row, got {requested}. "
                "Leave it out."
            )
        return requested or max(READ, self.joined)

    def check_english(self, backend: str) -> None:
        """Raise SclsearchError if the texts of a published task are not English."""
        corpus = CORPORA.get(self.name) if isinstance(self.task, str) else None
        if corpus and not corpus.english:
            raise SclsearchError(
                f"--backend {backend}: needs English texts, but those of {self.task} are Chinese. "
                "Take --backend eda."
            )

    def texts(self, data: TaskData) -> tuple[Texts, ...]:
        """Return the distinct texts, without blank ones."""
        unlabeled = data.splits["train"].unlabeled
        check_unlabeled(self.protocol, unlabeled, self.size, self.unlabeled)
        if self.protocol is None:
            rows = iter(data.splits["train"].texts)
        else:
            data = self.protocol.data(data)
            protocol, _ = for_rows(self.protocol, data, None)
            own = min(self.replicates, protocol.replicates)
            replicates = [protocol.replicate(number) for number in range(own)]
            if further := self.replicates - own:
                again = fresh(protocol, further)
                replicates += [again.replicate(number) for number in range(further)]
            drawn = [
                draw_rows(protocol, data, self.size, self.unlabeled, one).without_labels
                for one in replicates
            ]
            rows = (data.splits[part.split].texts[row] for part in drawn for row in part.index)
        return tuple(row for row in dict.fromkeys(rows) if any(text.strip() for text in row))


def select_texts(
    task: str | CustomTask,
    protocol: str | None = None,
    train_size: int | None = None,
    shots: int | None = None,
    replicates: int | None = None,
    unlabeled: Unlabeled | None = None,
) -> TextSelection:
    """Return the selection of texts that the options specify.

    Raises:
        SclsearchError: A name is unknown, or the options are inconsistent.
    """
    size = Size.of(train_size, shots)
    task = as_task(task)
    chosen = TextSelection(task, None, size, 0).default_protocol
    if protocol is not None:
        chosen = find_protocol(protocol)
        chosen.check_size(size, FEW_SHOT.name)
    if isinstance(task, str):
        check_unlabeled(chosen, 0, size, unlabeled)
    if chosen is None and replicates is not None:
        raise SclsearchError(
            "--replicates: does not apply to all training texts. Leave it out, or give a training "
            "size or a protocol."
        )
    count = replicates or (chosen.replicates if chosen else 0)
    return TextSelection(task, chosen, size, count, unlabeled)
