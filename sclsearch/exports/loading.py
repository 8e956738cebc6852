"""Commands and Python code that load an export; their words are in `loading.md.jinja`."""

import json
import re
import shlex
from pathlib import Path

from sclsearch.exports.predictor import ExportRecord

TEXTS = '["Your text."]'


def loading(name: str, record: ExportRecord) -> str:
    """Return the ways to load an export as Markdown, with a block of Python for each program."""
    from jinja2 import Environment, StrictUndefined

    text = Path(__file__).with_name("loading.md.jinja").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(text).render(
        folder=json.dumps(name, ensure_ascii=False),
        quoted=shlex.quote(name),
        method=_method_place(record),
        option=own_method_option(record),
        texts=TEXTS,
        record=record,
    )


def loading_code(name: str, record: ExportRecord) -> list[str]:
    """Return the blocks of Python of `loading`."""
    return re.findall(r"```python\n(.*?)\n```", loading(name, record), re.DOTALL)


def main_example(name: str, record: ExportRecord) -> str:
    """Return three lines of Python that classify a text, by transformers if it can load that."""
    ours, *others = loading_code(name, record)
    return ours if record.thresholded or not others else others[0]


def _method_place(record: ExportRecord) -> str:
    """Return the method of a file as `FILE.py:CLASS`; empty for a built-in one."""
    place = f"{Path(record.place.rpartition(':')[0]).name}:{record.method}"
    return place if record.method_digest else ""


def own_method_option(record: ExportRecord) -> str:
    """Return the option that `predict` needs for a custom method; else no text."""
    place = _method_place(record)
    return f" --method {shlex.quote(place)}" if place else ""
