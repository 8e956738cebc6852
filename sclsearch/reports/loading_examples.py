"""Python code that loads an export with each library that can, for its model card."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from sclsearch.encoders.models import ENCODER
from sclsearch.reports.export_record import ExportRecord

TEXTS = '["A fine film."]'


def loading_examples(name: str, record: ExportRecord) -> Iterator[tuple[str, str]]:
    """Yield a heading and Python code for each way to load an export, the main one first."""
    quoted = json.dumps(name, ensure_ascii=False)
    yield "With sclsearch:", _with_sclsearch(name, record)
    if record.members:
        return
    if record.format != "sclsearch":
        code = "" if record.format == "transformers" else ", and the code in pooled_classifier.py"
        heading = f"With transformers alone{code}, with the same predictions:"
        yield heading, main_example(name, record)
    if record.format == "transformers":
        return
    if record.format == "transformers-code" and not record.pair:
        yield (
            "With sentence-transformers, whose `encode` returns the class scores, in the order of "
            "the labels. The first two modules alone return the embeddings:",
            "from sentence_transformers import SentenceTransformer\n\n"
            f"classifier = SentenceTransformer({quoted})\nprint(classifier.encode({TEXTS}))\n"
            "embedder = SentenceTransformer(modules=list(classifier)[:2])\n"
            f"print(embedder.encode({TEXTS}))",
        )
    yield (
        "The encoder alone:",
        "from transformers import AutoModel, AutoTokenizer\n\n"
        f'encoder = AutoModel.from_pretrained({quoted}, subfolder="{ENCODER}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained({quoted}, subfolder="{ENCODER}")',
    )


def main_example(name: str, record: ExportRecord) -> str:
    """Return three lines of Python that load an export and classify a text.

    They use transformers if it can load the export, else sclsearch.
    """
    if record.members or record.format == "sclsearch":
        return _with_sclsearch(name, record)
    quoted = json.dumps(name, ensure_ascii=False)
    texts = '{"text": "A fine film.", "text_pair": "A good film."}' if record.pair else TEXTS
    code = ", trust_remote_code=True" if record.format == "transformers-code" else ""
    return (
        "from transformers import pipeline\n"
        f'classifier = pipeline("text-classification", model={quoted}{code})\n'
        f"print(classifier({texts}, truncation=True))"
    )


def _with_sclsearch(name: str, record: ExportRecord) -> str:
    quoted = json.dumps(name, ensure_ascii=False)
    texts = '[("A fine film.", "A good film.")]' if record.pair else TEXTS
    method = f', method="{_place(record)}"' if record.method_digest else ""
    return (
        f"import sclsearch\nclassifier = sclsearch.load({quoted}{method})\n"
        f"print(classifier.predict({texts}))"
    )


def method_option(record: ExportRecord) -> str:
    """Return the option that `predict` needs for a custom method; else no text."""
    return f" --method {shlex.quote(_place(record))}" if record.method_digest else ""


def _place(record: ExportRecord) -> str:
    return f"{Path(record.place.rpartition(':')[0]).name}:{record.method}"


def loading_note(name: str, record: ExportRecord) -> str:
    """Return a paragraph on the command line, the hub, and what cannot load an export."""
    quoted = shlex.quote(name)
    lines = [
        f"On the command line: `sclsearch predict {quoted} FILE{method_option(record)}`. "
        f"From the hub: `hf download OWNER/NAME --local-dir {quoted}`."
    ]
    if record.members or record.format == "sclsearch":
        why = "averages several models" if record.members else "has a head that transformers lacks"
        lines.append(f"transformers cannot load this folder, because the classifier {why}.")
    elif record.format == "transformers-code":
        lines.append(
            "No class of transformers computes the head of this classifier, so `pipeline` and "
            "`AutoModelForSequenceClassification` take `trust_remote_code=True`, which lets "
            "pooled_classifier.py run."
        )
    return "\n".join(lines)
