"""Large CSV corpora of Zhang, Zhao and LeCun (2015, https://arxiv.org/abs/1509.01626).

The corpora are Yelp-2, Amazon-2 and DBpedia-14. Their files have no header; classes start at 1.
There is no validation split. A title and its body become one text, as in the paper.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from sclsearch.tasks.base import Task
from sclsearch.tasks.corpus import Corpus, Hub, by_name
from sclsearch.tasks.tables import load_csv

SPLITS: Mapping[str, str] = MappingProxyType({"train": "train.csv", "test": "test.csv"})
POLARITY = ("negative", "positive")
# The hub keeps Yelp's quotes doubled as in CSV: \"" instead of \".
_ESCAPED_QUOTE = re.compile(r'\\""?')


def plain(text: str) -> str:
    """Return a review with its backslash-escaped line ends and quotes unescaped."""
    return _ESCAPED_QUOTE.sub('"', text).replace("\\n", "\n").strip()


def _zhang(
    name: str,
    summary: str,
    labels: tuple[str, ...],
    folder: str,
    hub: Hub,
    *,
    clean: Callable[[str], str] = str.strip,
) -> Corpus:
    return Corpus(
        task=Task(name, summary, labels, "accuracy"),
        origin=f"https://s3.amazonaws.com/fast-ai-nlp/{folder}.tgz",
        folder=folder,
        files=SPLITS,
        read=partial(load_csv, header=("class", *hub.columns)),
        columns=(*hub.columns, "class"),
        hub=hub,
        written=tuple(str(n) for n in range(1, len(labels) + 1)),
        # A single empty review must not make millions of rows unusable.
        blank_texts=True,
        clean=clean,
        joined=True,
    )


ZHANG = by_name(
    _zhang(
        "yelp2",
        "is a Yelp review positive",
        POLARITY,
        "yelp_review_polarity_csv",
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
        "amazon2",
        "is an Amazon review positive",
        POLARITY,
        "amazon_review_polarity_csv",
        Hub(
            repository="fancyzhx/amazon_polarity",
            revision="9d9c45c18f8c3cf1b23a3c27917b60cbf28f3289",
            config="amazon_polarity",
            columns=("title", "content"),
        ),
        clean=plain,
    ),
    _zhang(
        "dbpedia",
        "what kind of thing is a Wikipedia article about, 14 kinds",
        (
            *("Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder"),
            *("MeanOfTransportation", "Building", "NaturalPlace", "Village", "Animal"),
            *("Plant", "Album", "Film", "WrittenWork"),
        ),
        "dbpedia_csv",
        Hub(
            repository="fancyzhx/dbpedia_14",
            revision="9abd46cf7fc8b4c64290f26993c540b92aa145ac",
            config="dbpedia_14",
            columns=("title", "content"),
        ),
    ),
)
