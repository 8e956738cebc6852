"""Commands of experiments refuse what cannot be, before anything is written."""

from pathlib import Path

import pytest

from sclsearch.papers.tables import published_tables
from tests.cli.conftest import Call


@pytest.fixture
def storage(place: Path) -> Path:
    return place / "sclsearch-storage"


def test_all_tables_are_listed_with_their_titles(sclsearch: Call, storage: Path) -> None:
    done = sclsearch("reproduce", "ls")
    listed = dict(line.split("\t") for line in done.stdout.splitlines())
    assert done.returncode == 0
    assert listed == {name: table.title for name, table in published_tables().items()}
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ls", "--cells", "nonsense"), "--cells: has no effect on `ls`"),
        (("ls", "--json"), "--json: has no effect on `ls`"),
        (("gunel/table-44",), "Unknown table 'gunel/table-44'. Did you mean 'gunel/table-4'?"),
        (("gunel/table-4", "--time-budget", "soon"), "--time-budget: must be a positive"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_what_a_user_can_mend_is_one_text_and_exit_code_2(
    sclsearch: Call, storage: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = sclsearch("reproduce", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(message)
    assert not storage.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("confirm", "mine"), "Unknown study 'mine' in"),
        (("variance", "mine"), "Unknown study 'mine' in"),
        (("variance", "mine", "--orders", "1"), "--subsets, --initializations, --orders: at least"),
        (("variance", "mine", "--orders", "400"), "must have at most 1000 combinations, got 1200"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_study_and_seeds_that_cannot_be_are_refused(
    sclsearch: Call, arguments: tuple[str, ...], message: str
) -> None:
    done = sclsearch(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
