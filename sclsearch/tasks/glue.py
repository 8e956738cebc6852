"""GLUE's tasks (Wang et al., 2019, https://arxiv.org/abs/1804.07461) and RTE of FewGLUE.

FewGLUE (Schick and Schütze, 2021, https://arxiv.org/abs/2009.07118) draws 32 training rows of each
SuperGLUE task. Validation is SuperGLUE's own `val.jsonl`, which users put beside them.
`unlabeled.jsonl` has no labels, so it is not read.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import SENTENCES, Corpus, Hub, Reader, by_name
from sclsearch.tasks.tables import load_json_lines, load_tsv

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
HUB_SPLITS: Mapping[str, str] = MappingProxyType(
    {"validation": "validation_matched", "test": "validation_mismatched"}
)
PREMISE = ("premise", "hypothesis")


def _glue(
    name: str,
    summary: str,
    labels: tuple[str, ...],
    folder: str,
    columns: tuple[str, ...],
    *,
    metric: str = "accuracy",
    like: str | None = None,
    files: Mapping[str, str] = SPLITS,
    read: Reader = load_tsv,
    named: bool = False,
    hub_columns: tuple[str, ...] = (),
    broken_lines: int = 0,
    blank_texts: bool = False,
) -> Corpus:
    """Return a corpus of GLUE; `named` is True if the files have class names, not numbers."""
    return Corpus(
        task=Task(name, summary, labels, metric, pair=len(columns) == 3, like=like),
        origin="https://gluebenchmark.com/tasks",
        folder=folder,
        files=files,
        read=read,
        columns=columns,
        hub=Hub(
            repository="nyu-mll/glue",
            revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
            config=like or name,
            columns=hub_columns or columns[:-1],
            splits=MappingProxyType({}) if files is SPLITS else HUB_SPLITS,
        ),
        written=() if named else tuple(str(n) for n in range(len(labels))),
        broken_lines=broken_lines,
        blank_texts=blank_texts,
    )


_mnli = partial(
    _glue,
    labels=("entailment", "neutral", "contradiction"),
    folder="MNLI",
    columns=(*SENTENCES, "gold_label"),
    hub_columns=PREMISE,
    named=True,
)

GLUE = by_name(
    _glue(
        "cola",
        "is a sentence grammatical",
        ("unacceptable", "acceptable"),
        "CoLA",
        ("sentence", "label"),
        metric="mcc",
        read=partial(load_tsv, header=("source", "label", "mark", "sentence")),
    ),
    _glue(
        "sst2",
        "is a film review positive",
        ("negative", "positive"),
        "SST-2",
        ("sentence", "label"),
    ),
    _glue(
        "mrpc",
        "do two sentences of news say the same",
        ("not_equivalent", "equivalent"),
        "MRPC",
        ("#1 String", "#2 String", "Quality"),
        metric="f1",
        hub_columns=SENTENCES,
    ),
    _glue(
        "rte",
        "does a text entail a sentence",
        ("entailment", "not_entailment"),
        "RTE",
        (*SENTENCES, "label"),
        named=True,
    ),
    _glue(
        "qnli",
        "does a sentence hold the answer to a question",
        ("entailment", "not_entailment"),
        "QNLI",
        ("question", "sentence", "label"),
        named=True,
    ),
    _glue(
        "qqp",
        "do two questions ask the same",
        ("not_duplicate", "duplicate"),
        "QQP",
        ("question1", "question2", "is_duplicate"),
        metric="f1",
        # A few questions of the official files are empty or contain a line end, which splits
        # their row.
        broken_lines=10,
        blank_texts=True,
    ),
    _mnli(
        "mnli",
        "does a premise entail a hypothesis, contradict it, or neither",
        files=MNLI_SPLITS,
    ),
    _mnli(
        "mnli-mm",
        "MNLI tested on genres that are not trained on",
        files=MISMATCHED_SPLITS,
        like="mnli",
    ),
    _glue(
        "stsb",
        "how alike are two sentences, 0 to 5",
        (),
        "STS-B",
        (*SENTENCES, "score"),
        # Papers print Pearson/Spearman; the metric here is Pearson.
        metric="pearson",
    ),
    _glue(
        "wnli",
        "does a sentence follow with its pronoun resolved",
        ("not_entailment", "entailment"),
        "WNLI",
        (*SENTENCES, "label"),
    ),
)

FEWGLUE = by_name(
    Corpus(
        task=Task(
            "fewglue-rte",
            "does a text entail a sentence, learnt from FewGLUE's 32 rows",
            ("entailment", "not_entailment"),
            "accuracy",
            pair=True,
        ),
        origin=(
            "https://github.com/timoschick/fewglue and, for val.jsonl, RTE of "
            "https://super.gluebenchmark.com/tasks"
        ),
        folder="FewGLUE/RTE",
        files=MappingProxyType({"train": "train.jsonl", "validation": "val.jsonl"}),
        read=load_json_lines,
        columns=(*PREMISE, "label"),
    )
)
