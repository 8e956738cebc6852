"""Write `docs/reference/python.md` from the signatures and docstrings of the Python API.

python tools/python_reference.py
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import sclsearch
from sclsearch.arguments import type_text
from sclsearch.encoders.encoder import Encoder
from sclsearch.encoders.heads import Head
from sclsearch.exports.predictor import Prediction
from sclsearch.methods.base import Batch, Method, Model, Stage, Training
from sclsearch.reports.report import ConfigurationLine, SeedLine
from sclsearch.study.spec import RunOptions, StudySpec

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
FUNCTIONS = (
    "tune",
    "train",
    "confirm",
    "select",
    "table",
    "compare",
    "write_report",
    "export",
    "load",
)
SECTIONS = {
    "Classifier": (sclsearch.Classifier,),
    "Functions": tuple(getattr(sclsearch, name) for name in (*FUNCTIONS, "remove")),
    "Your own rows": (sclsearch.CustomTask,),
    "Results": (
        *(sclsearch.Report, ConfigurationLine, SeedLine, sclsearch.StudyComparison),
        *(sclsearch.MethodComparison, sclsearch.Predictor, Prediction, sclsearch.SclsearchError),
    ),
    "Callbacks": (sclsearch.Callback,),
    "Options as classes": (StudySpec, RunOptions),
    "Methods of your own": (Method, Batch, Model, Training, Stage, Encoder, Head),
}
WITHOUT_SIGNATURE = {*SECTIONS["Results"], *SECTIONS["Callbacks"], Method, Encoder, Head, Model}
ENTRY = re.compile(r"^([\w/, -]+): (.+(?:\n {4}.+)*)", re.MULTILINE)
HEADINGS = re.compile(
    r"^(Args|Attributes|Columns|Options|Raises|Returns|Yields|Example):\n", re.MULTILINE
)

_OPTIONS = {
    *ENTRY.findall(textwrap.dedent((sclsearch.tune.__doc__ or "").partition("Options:\n")[2]))
}
"""Entries of `tune`, which are not repeated."""


def page() -> str:
    """Return the page as Markdown."""
    lines = ["# Python API\n", "`tools/python_reference.py` writes this page from the docstrings."]
    for title, things in SECTIONS.items():
        lines.append(f"\n## {title}")
        for thing in things:
            lines += _described(thing)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _described(thing: Any) -> Iterator[str]:
    yield f"\n### {thing.__name__}\n"
    if thing not in WITHOUT_SIGNATURE:
        yield _signature(thing)
    yield _markdown(inspect.getdoc(thing) or "", set() if thing is sclsearch.tune else _OPTIONS)
    if inspect.isclass(thing):
        yield from _members(thing)


def _members(kind: Any) -> Iterator[str]:
    if kind is sclsearch.Classifier:
        yield _markdown(inspect.getdoc(kind.__init__) or "", _OPTIONS)
    members = {name: one for name, one in vars(kind).items() if not name.startswith("_")}
    texts = dict(_attributes(kind)) | {
        name: inspect.getdoc(one) or ""
        for name, one in members.items()
        if isinstance(one, property)
    }
    if lines := [f"- `{name}`: {_line(text)}" for name, text in texts.items() if text]:
        yield "\n".join(["**Attributes and properties**\n", *lines])
    for name, member in members.items():
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function) and (text := inspect.getdoc(function)):
            yield f"\n#### {kind.__name__}.{name}\n"
            yield _signature(function)
            yield _markdown(text)


def _signature(thing: Any) -> str:
    """Return the signature as a code block, with one parameter a line if it is long."""
    found = inspect.signature(thing)
    parameters, star = list[str](), False
    for one in found.parameters.values():
        if one.name == "self":
            continue
        if one.kind is one.KEYWORD_ONLY and not star:
            parameters.append("*")
        star = star or one.kind in {one.KEYWORD_ONLY, one.VAR_POSITIONAL}
        text = f"{'*' * (one.kind is one.VAR_POSITIONAL)}{one.name}"
        if one.annotation is not one.empty:
            text += f": {type_text(one.annotation)}"
        if one.default is not one.empty:
            text += f" = {re.sub('<factory>|<function .*', '…', repr(one.default))}"
        parameters.append(text)
    returned = inspect.isclass(thing) or found.return_annotation is found.empty
    end = "" if returned else f" -> {type_text(found.return_annotation)}"
    whole = f"{thing.__name__}({', '.join(parameters)}){end}"
    if len(whole) > 88:
        inner = "".join(f"    {one},\n" for one in parameters)
        whole = f"{thing.__name__}(\n{inner}){end}"
    return f"```python\n{whole}\n```\n"


def _markdown(text: str, known: Set[tuple[str, str]] = frozenset()) -> str:
    """Return a docstring whose sections are lists and code blocks, without `known` entries."""
    start, *rest = HEADINGS.split(text)
    parts = [start.strip()]
    for heading, body in zip(rest[::2], rest[1::2], strict=True):
        inner, _, after = re.fullmatch(r"((?: {4}.*\n?|\n)*)(\n?)((?s:.*))", body).groups()  # type: ignore[union-attr]
        inner = textwrap.dedent(inner)
        if heading == "Example":
            code = re.sub(r"^(>>>|\.\.\.) |  # doctest.*", "", inner.strip(), flags=re.MULTILINE)
            parts.append(f"```python\n{code}\n```")
        elif heading in {"Returns", "Yields"}:
            parts.append(f"**{heading}:** {_line(inner)}")
        else:
            entries = ENTRY.findall(inner)
            lines = [
                f"- `{name}`: {_line(text)}" for name, text in entries if (name, text) not in known
            ]
            if len(lines) < len(entries):
                lines.append("- See [tune](#tune) for the others.")
            parts.append("\n".join([f"**{heading}**\n", *lines]))
        parts.append(after.strip())
    return "\n\n".join(filter(None, parts)) + "\n"


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the fields of a class that a string after them describes."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            yield field.target.id, ast.literal_eval(text.value)


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
