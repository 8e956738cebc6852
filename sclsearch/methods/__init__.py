"""Methods, one frozen dataclass each. A line here is all that a new method needs."""

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sclsearch.errors import lookup

if TYPE_CHECKING:
    from sclsearch.methods.base import Method

METHODS: Mapping[str, str] = MappingProxyType(
    {
        "ce": "sclsearch.methods.ce:CE",
        "scl": "sclsearch.methods.scl:SCL",
        "supcl-seq": "sclsearch.methods.supcl_seq:SupCLSeq",
    }
)


def method_class(name: str) -> "type[Method]":
    """Returns the class of a method.

    Raises:
        SclsearchError: There is no method of that name.
    """
    module, _, attribute = lookup(METHODS, name, "method").partition(":")
    found: type[Method] = getattr(importlib.import_module(module), attribute)
    return found


def method_summaries() -> dict[str, str]:
    """Returns each method's first docstring line, read without importing torch."""
    folder = Path(__file__).parent
    summaries = {}
    for name, place in METHODS.items():
        module, _, attribute = place.partition(":")
        tree = ast.parse((folder / f"{module.rpartition('.')[2]}.py").read_text(encoding="utf-8"))
        node = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == attribute)
        summaries[name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return summaries
