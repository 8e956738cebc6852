"""Tests that the example callbacks match the Callback class and can be imported."""

import ast
import inspect
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

from sclsearch import Callback

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*_callback.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_signatures_of_callback_and_can_be_imported(example: Path) -> None:
    tree = ast.parse(example.read_text(encoding="utf-8"))
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    methods = {node.name: node.args for node in kind.body if isinstance(node, ast.FunctionDef)}
    methods.pop("__init__")
    assert methods
    for name, arguments in methods.items():
        names = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]
        assert names == list(inspect.signature(getattr(Callback, name)).parameters)
    if find_spec(example.stem.removesuffix("_callback")):  # tensorboard, wandb
        assert issubclass(runpy.run_path(str(example))[kind.name], Callback)
