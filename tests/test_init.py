"""Tests of the public names of the package and of lazy imports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import sclsearch

SLOW = ("torch", "ray", "mlflow", "transformers", "optuna", "datasets", "pandas", "sklearn")


@pytest.mark.parametrize("module", ["sclsearch", "sclsearch.cli", "sclsearch.api"])
def test_importing_loads_no_slow_packages(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {SLOW} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_search_loads_transformers_only_with_a_model() -> None:
    names = ("transformers", "mlflow", "pandas", "sklearn")
    code = f"import sys, sclsearch.search.run; print([n for n in {names} if n in sys.modules])"
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


def test_the_package_has_a_py_typed_marker() -> None:
    assert (Path(sclsearch.__file__).parent / "py.typed").is_file()


def test_the_metadata_has_authors_and_classifiers() -> None:
    metadata = ProjectMetadata(str(Path(__file__).parents[1]), PluginManager()).core
    assert metadata.authors
    assert "Typing :: Typed" in metadata.classifiers
    assert "Topic :: Scientific/Engineering :: Artificial Intelligence" in metadata.classifiers


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'sclsearch' has no attribute 'tuen'"):
        sclsearch.tuen  # noqa: B018
