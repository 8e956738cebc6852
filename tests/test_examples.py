"""Tests that the example callbacks match the Callback class and can be imported."""

import ast
import inspect
import runpy
from pathlib import Path

import pytest

from sclsearch import Callback

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*_callback.py"))
PACKAGES = {"tensorboard_callback": "tensorboard", "wandb_callback": "wandb"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_methods_of_an_example_have_the_signatures_of_callback(example: Path) -> None:
    (kind,) = (
        node
        for node in ast.parse(example.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    methods = {node.name: node.args for node in kind.body if isinstance(node, ast.FunctionDef)}
    methods.pop("__init__")
    assert methods
    for name, arguments in methods.items():
        names = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]
        assert names == list(inspect.signature(getattr(Callback, name)).parameters)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_can_be_imported_with_its_package(example: Path) -> None:
    pytest.importorskip(PACKAGES[example.stem])
    names = runpy.run_path(str(example)).values()
    assert any(issubclass(value, Callback) for value in names if isinstance(value, type))
