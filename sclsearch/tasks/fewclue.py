"""Three tasks of FewCLUE (Xu et al., 2021, https://arxiv.org/abs/2107.07498) and their JSON files.

FewCLUE has five training sets of 32 rows, `train_0` to `train_4`, each with a validation set of the
same size. For Tnews a set has 240 rows, 16 per class. `train_few_all` and `dev_few_all` are the
unions. We read the unions, because a protocol draws its own subset for each replicate and one set
has fewer than 20 rows per class. The two unions share no text. Two of the five
sets may share a text. A union keeps it once, since a protocol may draw validation rows from the
training split.

The test is `test_public`; `test` and `unlabeled` have no labels, so they are not read.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.clue import TOPICS
from sclsearch.tasks.corpus import SENTENCES, Corpus
from sclsearch.tasks.tables import load_json_lines

SPLITS: Mapping[str, str] = MappingProxyType(
    {"train": "train_few_all.json", "validation": "dev_few_all.json", "test": "test_public.json"}
)


def _fewclue(task: Task, written: tuple[str, ...]) -> Corpus:
    return Corpus(
        task=task,
        origin="https://github.com/CLUEbenchmark/FewCLUE/tree/main/datasets",
        folder=task.name.removeprefix("fewclue-"),
        files=SPLITS,
        read=load_json_lines,
        columns=(*(SENTENCES if task.pair else ("sentence",)), "label"),
        written=written,
        distinct=True,
    )


FEWCLUE: Mapping[str, Corpus] = MappingProxyType(
    {
        corpus.task.name: corpus
        for corpus in (
            _fewclue(
                Task(
                    "eprstmt",
                    "is a Chinese product review positive, few rows",
                    ("negative", "positive"),
                    "accuracy",
                ),
                ("Negative", "Positive"),
            ),
            _fewclue(
                Task(
                    "bustm",
                    "do two Chinese requests to a voice assistant mean the same, few rows",
                    ("different", "same"),
                    "accuracy",
                    pair=True,
                ),
                ("0", "1"),
            ),
            _fewclue(
                Task(
                    "fewclue-tnews",
                    "what is a Chinese headline about, 15 topics, few rows",
                    tuple(TOPICS.values()),
                    "accuracy",
                ),
                tuple(TOPICS),
            ),
        )
    }
)
