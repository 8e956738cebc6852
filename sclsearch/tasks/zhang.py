"""Large CSV corpora of Zhang, Zhao and LeCun (2015, https://arxiv.org/abs/1509.01626).

The corpora are Yelp-2, Amazon-2 and DBpedia-14. Their files have no header; classes start at 1.
There is no validation split. A title and its body become one text, as in the paper.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import Corpus, Hub
from sclsearch.tasks.tables import load_csv

SPLITS: Mapping[str, str] = MappingProxyType({"train": "train.csv", "test": "test.csv"})
POLARITY = ("negative", "positive")
TITLED = ("title", "content")
# The hub keeps Yelp's quotes doubled as in CSV: \"" instead of \".
_ESCAPED_QUOTE = re.compile(r'\\""?')


def plain(text: str) -> str:
    """Return a review with its backslash-escaped line ends and quotes unescaped."""
    return _ESCAPED_QUOTE.sub('"', text).replace("\\n", "\n").strip()


def _zhang(
    task: Task,
    folder: str,
    texts: tuple[str, ...],
    hub: Hub,
    *,
    clean: Callable[[str], str] = str.strip,
) -> Corpus:
    header = ("class", *texts)
    return Corpus(
        task=task,
        origin=f"https://s3.amazonaws.com/fast-ai-nlp/{folder}.tgz",
        folder=folder,
        files=SPLITS,
        read=partial(load_csv, header=header),
        columns=(*texts, "class"),
        hub=hub,
        written=tuple(str(n) for n in range(1, len(task.labels) + 1)),
        # A single empty review must not make millions of rows unusable.
        blank_texts=True,
        clean=clean,
        joined=True,
    )


ZHANG: Mapping[str, Corpus] = MappingProxyType(
    {
        corpus.task.name: corpus
        for corpus in (
            _zhang(
                Task("yelp2", "is a Yelp review positive", POLARITY, "accuracy"),
                "yelp_review_polarity_csv",
                ("text",),
                Hub(
                    repository="fancyzhx/yelp_polarity",
                    revision="bbf1c97a1f0cf005e5aded43839fd814654a1557",
                    config="plain_text",
                    columns=("text",),
                    names=("1", "2"),
                ),
                clean=plain,
            ),
            _zhang(
                Task("amazon2", "is an Amazon review positive", POLARITY, "accuracy"),
                "amazon_review_polarity_csv",
                TITLED,
                Hub(
                    repository="fancyzhx/amazon_polarity",
                    revision="9d9c45c18f8c3cf1b23a3c27917b60cbf28f3289",
                    config="amazon_polarity",
                    columns=TITLED,
                ),
                clean=plain,
            ),
            _zhang(
                Task(
                    "dbpedia",
                    "what kind of thing is a Wikipedia article about, 14 kinds",
                    (
                        *("Company", "EducationalInstitution", "Artist", "Athlete"),
                        *("OfficeHolder", "MeanOfTransportation", "Building", "NaturalPlace"),
                        *("Village", "Animal", "Plant", "Album", "Film", "WrittenWork"),
                    ),
                    "accuracy",
                ),
                "dbpedia_csv",
                TITLED,
                Hub(
                    repository="fancyzhx/dbpedia_14",
                    revision="9abd46cf7fc8b4c64290f26993c540b92aa145ac",
                    config="dbpedia_14",
                    columns=TITLED,
                ),
            ),
        )
    }
)
