"""Tests of the public names, lazy imports, metadata and example callbacks."""

import ast
import inspect
import pydoc
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import sclsearch

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*_callback.py"))
SLOW = ("transformers", "mlflow", "pandas", "sklearn")
SLOWER = ("torch", "ray", "optuna", "datasets")


@pytest.mark.parametrize(
    ("module", "slow"),
    [("sclsearch.api", (*SLOW, *SLOWER)), ("sclsearch.search.run", SLOW)],
)
def test_importing_loads_no_slow_packages(module: str, slow: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("name", sclsearch.__all__)
def test_every_public_name_exists_and_has_a_docstring(name: str) -> None:
    found = getattr(sclsearch, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", found)
        return
    assert found.__name__ == name
    assert found.__doc__


def test_completion_and_help_list_every_public_name() -> None:
    assert dir(sclsearch) == sorted(sclsearch.__all__)
    text = pydoc.plain(pydoc.render_doc(sclsearch))
    for name in {*sclsearch.__all__} - {"__version__"}:
        assert re.search(rf"^    (class )?{name}\(", text, re.MULTILINE), name


def test_the_package_is_typed_and_its_metadata_has_authors() -> None:
    assert (Path(sclsearch.__file__).parent / "py.typed").is_file()
    metadata = ProjectMetadata(str(Path(__file__).parents[1]), PluginManager()).core
    assert metadata.authors
    assert "Typing :: Typed" in metadata.classifiers


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_the_signatures_of_callback_and_can_be_imported(example: Path) -> None:
    tree = ast.parse(example.read_text(encoding="utf-8"))
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    methods = {node.name: node.args for node in kind.body if isinstance(node, ast.FunctionDef)}
    methods.pop("__init__")
    assert methods
    for name, arguments in methods.items():
        names = [one.arg for one in (*arguments.args, *arguments.kwonlyargs)]
        assert names == list(inspect.signature(getattr(sclsearch.Callback, name)).parameters)
    if find_spec(example.stem.removesuffix("_callback")):  # tensorboard, wandb
        assert issubclass(runpy.run_path(str(example))[kind.name], sclsearch.Callback)
