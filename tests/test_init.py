"""Tests of the public names of the package, of lazy imports and of its metadata."""

import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import sclsearch

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
