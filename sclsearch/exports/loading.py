"""Commands and Python code that load an export."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from sclsearch.encoders.models import ENCODER
from sclsearch.exports.predictor import ExportRecord

TEXTS = '["Your text."]'


def loading_examples(name: str, record: ExportRecord) -> Iterator[tuple[str, str]]:
    """Yield a heading and Python code for each way to load an export, the main one first."""
    folder = json.dumps(name, ensure_ascii=False)
    texts = '[("First text.", "Second text.")]' if record.pair else TEXTS
    method = f', method="{_method_place(record)}"' if record.method_digest else ""
    yield (
        "With sclsearch:",
        f"import sclsearch\nclassifier = sclsearch.load({folder}{method})\n"
        f"print(classifier.predict({texts}))",
    )
    if record.members:
        return
    if record.format != "sclsearch":
        yield _with_transformers(folder, record)
    if record.format == "transformers-code" and not record.pair:
        yield (
            "With sentence-transformers, whose `encode` returns the class scores, in the order of "
            "the labels. The first two modules alone return the embeddings:",
            "from sentence_transformers import SentenceTransformer\n\n"
            f"classifier = SentenceTransformer({folder})\nprint(classifier.encode({TEXTS}))\n"
            "embedder = SentenceTransformer(modules=list(classifier)[:2])\n"
            f"print(embedder.encode({TEXTS}))",
        )
    if record.format != "transformers":
        yield (
            "The encoder alone:",
            "from transformers import AutoModel, AutoTokenizer\n\n"
            f'encoder = AutoModel.from_pretrained({folder}, subfolder="{ENCODER}")\n'
            f'tokenizer = AutoTokenizer.from_pretrained({folder}, subfolder="{ENCODER}")',
        )


def _with_transformers(folder: str, record: ExportRecord) -> tuple[str, str]:
    code = option = ""
    if record.format == "transformers-code":
        code, option = ", and the code in pooled_classifier.py", ", trust_remote_code=True"
    texts = '{"text": "First text.", "text_pair": "Second text."}' if record.pair else TEXTS
    same = (
        "which predicts the likelier class" if record.thresholded else "with the same predictions"
    )
    return (
        f"With transformers alone{code}, {same}:",
        "from transformers import pipeline\n"
        f'classifier = pipeline("text-classification", model={folder}{option})\n'
        f"print(classifier({texts}, truncation=True))",
    )


def main_example(name: str, record: ExportRecord) -> str:
    """Return three lines of Python that classify a text, by transformers if it can load that."""
    ours, *others = (code for _, code in loading_examples(name, record))
    return ours if record.format == "sclsearch" or record.thresholded else [*others, ours][0]


def _method_place(record: ExportRecord) -> str:
    return f"{Path(record.place.rpartition(':')[0]).name}:{record.method}"


def own_method_option(record: ExportRecord) -> str:
    """Return the option that `predict` needs for a custom method; else no text."""
    return f" --method {shlex.quote(_method_place(record))}" if record.method_digest else ""


def loading_note(name: str, record: ExportRecord) -> str:
    """Return a paragraph on the command line, the hub, and what cannot load an export."""
    quoted = shlex.quote(name)
    note = (
        f"On the command line: `sclsearch predict {quoted} FILE{own_method_option(record)}`. "
        f"From the hub: `hf download OWNER/NAME --local-dir {quoted}`."
    )
    if record.members or record.format == "sclsearch":
        why = "averages several models" if record.members else "has a head that transformers lacks"
        note += f"\ntransformers cannot load this folder, because the classifier {why}."
    elif record.format == "transformers-code":
        note += (
            "\nNo class of transformers computes the head of this classifier, so `pipeline` and "
            "`AutoModelForSequenceClassification` take `trust_remote_code=True`, which lets "
            "pooled_classifier.py run."
        )
    return note
