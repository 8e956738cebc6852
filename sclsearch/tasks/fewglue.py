"""RTE of FewGLUE (Schick and Schütze, 2021, https://arxiv.org/abs/2009.07118).

FewGLUE draws 32 training rows of each SuperGLUE task. Validation is SuperGLUE's own `val.jsonl`,
which users put beside them. `unlabeled.jsonl` has no labels, so it is not read.
"""

from collections.abc import Mapping
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import Corpus
from sclsearch.tasks.tables import load_json_lines

FEWGLUE: Mapping[str, Corpus] = MappingProxyType(
    {
        "fewglue-rte": Corpus(
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
            columns=("premise", "hypothesis", "label"),
        )
    }
)
