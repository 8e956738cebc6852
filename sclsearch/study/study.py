"""Fully resolved study, which determines the specification of every seed run in advance."""

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sclsearch.canonical import digest
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.load import load_tokenizer
from sclsearch.encoders.lora import check_lora
from sclsearch.encoders.models import encoder_folder
from sclsearch.errors import SclsearchError
from sclsearch.methods import NamedMethod
from sclsearch.methods.base import Method, Training, reads_paraphrases, reads_unlabeled
from sclsearch.methods.custom import sampler_name
from sclsearch.methods.fields import build, resolved
from sclsearch.protocols.base import Protocol, Rows, Size, Splits, by_split, least_epochs
from sclsearch.protocols.rows import Unlabeled, draw_rows
from sclsearch.selection.rules import Rule
from sclsearch.spaces.space import Choice, Space
from sclsearch.store.studies import ConfigurationRecord, ReplicateRecord
from sclsearch.tasks.base import Index, TaskData, Texts
from sclsearch.tasks.metrics import METRICS
from sclsearch.tasks.paraphrases import Paraphrases, ParaphraseSource
from sclsearch.training.data import Tokens, join, joined_rows, tokenize_task
from sclsearch.training.spec import Numerics, SeedRunSpec

IMBALANCED = 2 / 3
"""Share of the largest class from which accuracy is uninformative."""
BATCH_SIZES = {"epochs": "batch_size", "post_epochs": "post_batch_size"}
"""Batch size of the stage whose length a hyperparameter sets."""
SAMPLE = 200
"""Most texts of a split whose lengths stand for those of all."""


@dataclass(frozen=True, slots=True)
class FieldDefault:
    """Value of a field if no configuration sets it, and the source of that value."""

    value: object
    source: str  # method, training, protocol, space or --set; winner in a repetition


def from_source(source: str, values: Mapping[str, object]) -> dict[str, FieldDefault]:
    """Return values with their source."""
    return {name: FieldDefault(value, source) for name, value in values.items()}


def declared(method: type[Method]) -> dict[str, FieldDefault]:
    """Return the values that `Training` and the method declare."""
    kinds: tuple[tuple[str, type[Any]], ...] = (("training", Training), ("method", method))
    found = {
        field.name: FieldDefault(field.default, source)
        for source, kind in kinds
        for field in fields(kind)
        if field.default is not MISSING
    }
    return found | from_source("method", method.training)


@dataclass(frozen=True, slots=True)
class Study:
    """Search of one method on one task, with a model, a protocol and a search space.

    `rows` counts the training rows of a replicate, with the paraphrases that join them; `size` is
    set for a protocol that draws them. `unlabeled` is the text pool of stages that read no labels;
    None means the training rows only. `configs` is the usual number of a search. `conditions` are
    the fields that protocol, space and user set.
    """

    method: NamedMethod
    data: TaskData
    protocol: Protocol
    size: Size | None
    rows: int
    unlabeled: Unlabeled | None
    rule: Rule
    seeds: int
    configs: int
    space: Space
    conditions: Mapping[str, FieldDefault]
    model_name: str
    model: Path
    model_digest: str
    numerics: Numerics
    sampler: str  # name, or `FILE.py:FUNCTION`
    search_seed: int
    paraphrases: ParaphraseSource | None

    @property
    def model_place(self) -> str:
        """Hub name of the encoder, or the absolute path of its folder."""
        named = Path(self.model_name).expanduser().resolve()
        return str(named) if self.model == encoder_folder(named) else self.model_name

    @property
    def metric(self) -> str:
        return self.protocol.metric(self.data)

    @property
    def defaults(self) -> dict[str, FieldDefault]:
        return self.origins({})

    @property
    def identity(self) -> dict[str, Any]:
        """Properties that must stay equal when the study resumes.

        The seed runs have further identities of their own.
        """
        read = self.paraphrases and self.splits(0).paraphrases
        given = {"unlabeled": self.unlabeled, "paraphrases": read}
        return {
            "task": self.data.task.name,
            "model": self.model_name,
            "protocol": self.protocol.title,
            "size": None if self.size is None else str(self.size),
            **{name: found for name, found in given.items() if found is not None},
            "space": self.space.spec(),
            "sampler": sampler_name(self.sampler),
            "search_seed": self.search_seed,
        }

    @property
    def notes(self) -> list[str]:
        found = []
        source, joined = self.paraphrases, self.protocol.joined
        if source and joined:
            found.append(f"training: each row is joined by {joined} paraphrases from {source.name}")
        if source and source.note:
            found.append(source.note)
        if self.defaults.get("pooling") == FieldDefault("cls_pooled", "protocol"):
            found.append(
                "pooling: cls_pooled, the checkpoint's pretrained pooler, as in the protocol's "
                "paper; --set pooling=head_hidden takes a new layer"
            )
        found += self._metric_notes
        if self.unlabeled is None and (unlabeled := self.data.splits["train"].unlabeled):
            added = "; --unlabeled all adds them to the stages without labels"
            use = added if self.reads_unlabeled else ""
            found.append(f"training rows without a label that are not used: {unlabeled}{use}")
        return [*found, *self.data.notes]

    @property
    def _metric_notes(self) -> list[str]:
        metric, task = METRICS[self.metric], self.data.task
        if not task.own:
            usual = f"metric: {metric.name}, not the usual {task.metric} of {task.name}"
            return [usual] if metric.name != task.metric else []
        if metric.binary or (metric.name == "average_precision" and len(task.labels) == 2):
            last = reprlib.repr(task.labels[1])
            return [f"{metric.name} is of the class {last}, the last by name"]
        if metric.name != "accuracy":
            return []
        train = self.data.splits["train"]
        counts = np.bincount(train.y[: train.labeled], minlength=len(task.labels))
        share = counts.max() / counts.sum()
        if share < IMBALANCED:
            return []
        largest = reprlib.repr(task.labels[int(counts.argmax())])
        return [
            f"{share:.0%} of the training rows are {largest}, and predicting it alone has that "
            "accuracy: --metric macro_f1 counts all classes alike"
        ]

    @property
    def reads_paraphrases(self) -> bool:
        return reads_paraphrases(*self._built({}))

    @property
    def reads_unlabeled(self) -> bool:
        return reads_unlabeled(*self._built({}))

    def default_name(self) -> str:
        """Return a study name derived from its identity; the encoder's path has no part in it."""
        identity = {**self.identity, "model": self.model_digest}
        whole = digest({**identity, **self.seed_run_spec({}, 0).shared_identity})
        size = "" if self.size is None else f"-{self.size}"
        title = f"{self.method.name}-{self.data.task.name}{size}"
        plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in title).lstrip("-")
        return f"{plain[:91]}-{whole[:8]}"  # a study's name has at most 100 characters

    def fields(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return every field of the method and of training for a configuration."""
        return resolved(*self._built(values))

    def origins(self, values: Mapping[str, object]) -> dict[str, FieldDefault]:
        """Return every field for a configuration, with the source of its value.

        Declared values give way to those of protocol and space, and these to the user's. The
        protocol sets epochs for the configuration's batch size, and raises them if they are few.
        """
        given = from_source("space", values)
        found = {**declared(self.method.kind), **self.conditions, **given}
        batch_size = int(str(found["batch_size"].value))
        epochs = from_source("protocol", self.protocol.epochs(self.rows, batch_size))
        free = {name for name, one in found.items() if one.source in ("training", "method")}
        found |= {name: epochs[name] for name in free & epochs.keys()}
        for name in free & BATCH_SIZES.keys() if self.protocol.enough else ():
            least = least_epochs(self.rows, int(str(found[BATCH_SIZES[name]].value)))
            if int(str(found[name].value)) < least:
                found[name] = FieldDefault(least, "protocol")
        return found

    def splits(self, number: int) -> Splits:
        """Return a replicate's rows, with the digest of the paraphrases that the study reads."""
        replicate = self.protocol.replicate(number)
        splits = draw_rows(self.protocol, self.data, self.size, self.unlabeled, replicate)
        if extra := (train := self.data.splits["train"]).extra:
            last = np.arange(len(train) - extra, len(train))
            rows = Rows("train", np.concatenate([splits.train.index, last]))
            splits = replace(splits, train=rows).noted(f"{extra} extra rows join the training rows")
        if self.paraphrases is None:
            return splits
        texts = self.data.splits["train"].texts
        read = {texts[row] for row in splits.without_labels.index}
        joined = self.protocol.joined if self.reads_paraphrases else 0
        return replace(splits, paraphrases=self.paraphrases.digest_of(read, joined))

    def seed_run_spec(
        self, values: Mapping[str, object], number: int, splits: Splits | None = None
    ) -> SeedRunSpec:
        """Return the specification of one seed run: one configuration on one replicate.

        `splits` are its rows, if they are already drawn.
        """
        method, training = self._built(values)
        return SeedRunSpec(
            task=self.data.task,
            data_digest=self.data.digest,
            splits=splits or self.splits(number),
            metric=self.metric,
            evaluate=self.protocol.evaluate,
            keep=self.protocol.keep,
            method_name=self.method.name,
            method=method,
            training=training,
            replicate=self.protocol.replicate(number),
            model_name=self.model_name,
            model=self.model,
            model_digest=self.model_digest,
            numerics=self.numerics,
            max_updates=self.protocol.max_updates,
            method_digest=self.method.digest,
            joined=self.protocol.joined,
            unlabeled_digest=self.data.unlabeled_digest,
        )

    def check(self, encoder: Encoder) -> None:
        encoder.check_length(self.lengths()[-1], "max_length")
        for values in self.space.covering():
            method, training = self._built(values)
            method.check(encoder)
            if training.lora_rank:
                check_lora(encoder)
            if training.patience and self.protocol.keep == "last":
                raise SclsearchError(
                    f"patience: protocol {self.protocol.title} reports the last evaluation, not "
                    "the best, so no training ends early. Leave it out."
                )
            if training.head_lr_mult != 1:
                self._check_head(method, training, encoder)

    def _check_head(self, method: Method, training: Training, encoder: Encoder) -> None:
        classes = len(self.data.task.labels)
        for stage in method.stages(training):
            if stage.frozen_pooling is None and "head" in stage.new_modules(encoder, classes):
                return
        raise SclsearchError(
            f"head_lr_mult: {self.method.name} trains no module named head together with the "
            "encoder, so it has no effect. Leave it out."
        )

    def configuration(
        self, number: int, values: Mapping[str, object], origin: str
    ) -> ConfigurationRecord:
        return ConfigurationRecord(number, values, self.fields(values), origin)

    def replicate(self, number: int, splits: Splits) -> ReplicateRecord:
        seeds = self.protocol.replicate(number).seeds
        return ReplicateRecord(number, splits.digests, seeds, splits.notes)

    def lengths(self) -> tuple[int, ...]:
        """Return every `max_length` that a configuration can have."""
        searched = self.space.parameters.get("max_length")
        listed = searched.values if isinstance(searched, Choice) else ()
        values = listed or (self.defaults["max_length"].value,)
        return tuple(sorted({int(str(value)) for value in values}))

    def tokenized(self, replicates: Iterable[Splits]) -> dict[int, dict[str, Tokens]]:
        """Return token ids, and paraphrases if the study reads them, by `max_length`."""
        replicates = list(replicates)
        used = by_split(rows for splits in replicates for rows in splits.rows.values())
        drawn = by_split(splits.without_labels for splits in replicates)["train"]
        data, views, joined = self.paraphrased(drawn)
        used["train"] = np.union1d(used["train"], joined)
        tokenizer = load_tokenizer(self.model)
        return {
            length: tokenize_task(data, tokenizer, length, views, used) for length in self.lengths()
        }

    def paraphrased(
        self, drawn: Index
    ) -> tuple[TaskData, Mapping[Texts, Paraphrases] | None, Index]:
        """Return the task with joined rows, the paraphrases or None, and the training rows.

        `drawn` has all training rows that the replicates draw.
        """
        data, source, joined = self.data, self.paraphrases, self.protocol.joined
        if source is None:
            return data, None, drawn
        texts = data.splits["train"].texts
        views = source.views(texts[row] for row in drawn)
        if not joined:
            return data, views, drawn
        data = join(data, views, joined)
        texts = data.splits["train"].texts
        rows = joined_rows(Rows("train", drawn), joined, len(texts)).index
        if not self.reads_paraphrases:
            return data, None, rows
        kind = "text and every paraphrase that joins the training rows"
        return data, source.views((texts[row] for row in rows), kind), rows

    def sampled_ids(self, splits: Splits) -> list[list[int]]:
        """Return the token ids of some training and test texts of a replicate, not truncated."""
        texts = [
            text
            for rows in (splits.train, splits.test)
            for text in rows.some(SAMPLE).texts(self.data)
        ]
        columns = map(list, zip(*texts, strict=True))
        ids: list[list[int]] = load_tokenizer(self.model)(*columns, verbose=False)["input_ids"]
        return ids

    def _built(self, values: Mapping[str, object]) -> tuple[Method, Training]:
        found = {name: one.value for name, one in self.origins(values).items()}
        method, training = build(self.method.kind, found, self.space.file)
        self._check_balanced(training)
        return method, training

    def _check_balanced(self, training: Training) -> None:
        if training.class_weights != "balanced":
            return
        if self.data.task.regression:
            raise SclsearchError(
                f"class_weights: 'balanced' needs classes, but {self.data.task.name} is a "
                "regression. Leave it out."
            )
        if not getattr(self.method.kind, "cross_entropy", True):
            raise SclsearchError(
                f"class_weights: 'balanced' weights a cross-entropy, but {self.method.name} has "
                "none. Leave it out."
            )
