"""Python code that loads an export with each library that can, for its model card."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

from sclsearch.encoders.models import ENCODER
from sclsearch.reports.export_record import ExportRecord


def loading_examples(name: str, record: ExportRecord) -> Iterator[tuple[str, str]]:
    """Yield a heading and Python code for each way to load an export, the main one first."""
    quoted = json.dumps(name, ensure_ascii=False)
    texts = '[("A fine film.", "A good film.")]' if record.pair else '["A fine film."]'
    method = f', method="{_place(record)}"' if record.method_digest else ""
    yield (
        "With sclsearch:",
        f"import sclsearch\n\nclassifier = sclsearch.load({quoted}{method})\n"
        f"print(classifier.predict({texts}))",
    )
    if record.members:
        return
    if record.format == "transformers":
        texts = '{"text": "A fine film.", "text_pair": "A good film."}' if record.pair else texts
        yield (
            "With transformers alone, with the same predictions:",
            "from transformers import pipeline\n\n"
            f'classifier = pipeline("text-classification", model={quoted})\n'
            f"print(classifier({texts}, truncation=True))",
        )
        return
    if record.format == "sentence-transformers" and not record.pair:
        yield (
            "With sentence-transformers, whose `encode` returns the class scores, in the order of "
            "the labels. The first two modules alone return the embeddings:",
            "from sentence_transformers import SentenceTransformer\n\n"
            f"classifier = SentenceTransformer({quoted})\nprint(classifier.encode({texts}))\n"
            "embedder = SentenceTransformer(modules=list(classifier)[:2])\n"
            f"print(embedder.encode({texts}))",
        )
    yield (
        "The fine-tuned encoder alone:",
        "from transformers import AutoModel, AutoTokenizer\n\n"
        f'encoder = AutoModel.from_pretrained({quoted}, subfolder="{ENCODER}")\n'
        f'tokenizer = AutoTokenizer.from_pretrained({quoted}, subfolder="{ENCODER}")',
    )


def method_option(record: ExportRecord) -> str:
    """Return the option that `predict` and `verify` need for a custom method; else no text."""
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
    if record.format != "transformers" or record.members:
        why = "averages several models" if record.members else "has a head that transformers lacks"
        lines.append(
            "`AutoModelForSequenceClassification` cannot load this folder, because the classifier "
            f"{why}."
        )
    return "\n".join(lines)
