"""The folder goes with the source and not with the wheel."""

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]
FILES = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "cluster").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}


def test_the_source_has_every_file_of_the_folder() -> None:
    assert FILES
    found = {file.distribution_path for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert found >= FILES


def test_the_wheel_has_none_of_them() -> None:
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    found = {file.distribution_path for file in files}
    assert any(name.startswith("sclsearch/") for name in found)
    assert not any(Path(name).name in {Path(file).name for file in FILES} for name in found)
