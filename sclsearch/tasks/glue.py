"""GLUE's tasks (Wang et al., 2019, https://arxiv.org/abs/1804.07461) and their TSV files."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import SENTENCES, Corpus, Hub, Reader
from sclsearch.tasks.tables import load_tsv

SPLITS: Mapping[str, str] = MappingProxyType({"train": "train.tsv", "validation": "dev.tsv"})
MNLI_SPLITS: Mapping[str, str] = MappingProxyType(
    {
        "train": "train.tsv",
        "validation": "dev_matched.tsv",
        "validation_mismatched": "dev_mismatched.tsv",
    }
)
MISMATCHED_SPLITS: Mapping[str, str] = MappingProxyType(
    {"train": "train.tsv", "validation": "dev_matched.tsv", "test": "dev_mismatched.tsv"}
)
MNLI_ON_THE_HUB: Mapping[str, str] = MappingProxyType(
    {"validation": "validation_matched", "test": "validation_mismatched"}
)
MNLI_LABELS = ("entailment", "neutral", "contradiction")


def _glue(
    task: Task,
    folder: str,
    columns: tuple[str, ...],
    hub_columns: tuple[str, ...],
    *,
    files: Mapping[str, str] = SPLITS,
    read: Reader = load_tsv,
    named: bool = False,
    broken_lines: int = 0,
    blank_texts: bool = False,
) -> Corpus:
    return Corpus(
        task=task,
        origin="https://gluebenchmark.com/tasks",
        folder=folder,
        files=files,
        read=read,
        columns=columns,
        hub=Hub(
            repository="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            config=task.like or task.name,
            columns=hub_columns,
            splits=MappingProxyType({}) if files is SPLITS else MNLI_ON_THE_HUB,
        ),
        # Most files write a label as its number.
        written=() if named else tuple(str(n) for n in range(len(task.labels))),
        broken_lines=broken_lines,
        blank_texts=blank_texts,
    )


GLUE: Mapping[str, Corpus] = MappingProxyType(
    {
        corpus.task.name: corpus
        for corpus in (
            _glue(
                Task("cola", "is a sentence grammatical", ("unacceptable", "acceptable"), "mcc"),
                "CoLA",
                ("sentence", "label"),
                ("sentence",),
                read=partial(load_tsv, header=("source", "label", "mark", "sentence")),
            ),
            _glue(
                Task("sst2", "is a film review positive", ("negative", "positive"), "accuracy"),
                "SST-2",
                ("sentence", "label"),
                ("sentence",),
            ),
            _glue(
                Task(
                    "mrpc",
                    "do two sentences of news say the same",
                    ("not_equivalent", "equivalent"),
                    "f1",
                    pair=True,
                ),
                "MRPC",
                ("#1 String", "#2 String", "Quality"),
                SENTENCES,
            ),
            _glue(
                Task(
                    "rte",
                    "does a text entail a sentence",
                    ("entailment", "not_entailment"),
                    "accuracy",
                    pair=True,
                ),
                "RTE",
                (*SENTENCES, "label"),
                SENTENCES,
                named=True,
            ),
            _glue(
                Task(
                    "qnli",
                    "does a sentence hold the answer to a question",
                    ("entailment", "not_entailment"),
                    "accuracy",
                    pair=True,
                ),
                "QNLI",
                ("question", "sentence", "label"),
                ("question", "sentence"),
                named=True,
            ),
            _glue(
                Task(
                    "qqp",
                    "do two questions ask the same",
                    ("not_duplicate", "duplicate"),
                    "f1",
                    pair=True,
                ),
                "QQP",
                ("question1", "question2", "is_duplicate"),
                ("question1", "question2"),
                # A few questions of the official files are empty or contain a line end, which
                # splits their row.
                broken_lines=10,
                blank_texts=True,
            ),
            _glue(
                Task(
                    "mnli",
                    "does a premise entail a hypothesis, contradict it, or neither",
                    MNLI_LABELS,
                    "accuracy",
                    pair=True,
                ),
                "MNLI",
                (*SENTENCES, "gold_label"),
                ("premise", "hypothesis"),
                named=True,
                files=MNLI_SPLITS,
            ),
            _glue(
                Task(
                    "mnli-mm",
                    "MNLI tested on genres that are not trained on",
                    MNLI_LABELS,
                    "accuracy",
                    pair=True,
                    like="mnli",
                ),
                "MNLI",
                (*SENTENCES, "gold_label"),
                ("premise", "hypothesis"),
                named=True,
                files=MISMATCHED_SPLITS,
            ),
            _glue(
                # Papers print Pearson/Spearman; the metric here is Pearson.
                Task("stsb", "how alike are two sentences, 0 to 5", (), "pearson", pair=True),
                "STS-B",
                (*SENTENCES, "score"),
                SENTENCES,
            ),
            _glue(
                Task(
                    "wnli",
                    "does a sentence follow with its pronoun resolved",
                    ("not_entailment", "entailment"),
                    "accuracy",
                    pair=True,
                ),
                "WNLI",
                (*SENTENCES, "label"),
                SENTENCES,
            ),
        )
    }
)
