"""Tests of proposals: a configuration depends only on its number and the visible scores."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from sclsearch.canonical import canonical, digest
from sclsearch.errors import SclsearchError
from sclsearch.search import proposals as proposals_module
from sclsearch.search.proposals import GP_CONFIGS, HISTORY, ObservedConfiguration, Proposals
from sclsearch.spaces.space import Choice, Parameter, Range, Space, Values

WIDE = Space(
    method="supcl-seq",
    source="a test",
    parameters={
        "dropouts": Choice(((0.0, 0.1), (0.1, 0.1), (0.0, 0.1, 0.2))),
        "probe_learning_rate": Range(1e-4, 1e-2, "log"),
        "tau": Range(0.05, 1.0, "float"),
        "epochs": Choice((1, 5, 9)),
    },
    published=(
        {"dropouts": (0.0, 0.1), "probe_learning_rate": 1e-3, "tau": 0.05, "epochs": 5},
        {"dropouts": (0.1, 0.1), "probe_learning_rate": 1e-2, "tau": 0.5, "epochs": 1},
    ),
    fixed={},
    file="wide.yaml",
)
PARAMETERS: dict[str, Parameter] = {
    "tau": Choice((0.1, 0.3, 0.5)),
    "lam": Choice((0.5, 0.9)),
    "epochs": Choice((1, 2)),
}
FINITE = Space("scl", "a test", PARAMETERS, ({"tau": 0.3, "lam": 0.9, "epochs": 1},), {}, "f.yaml")


def by_chance(values: Values) -> float:
    return int(digest(values)[:8], 16) / 2**32


def searched(
    space: Space,
    sampler: str,
    count: int,
    search_seed: int = 0,
    score: Callable[[Values], float] = by_chance,
) -> list[ObservedConfiguration]:
    """Return the proposals of a search that finishes each configuration before the next."""
    known: list[ObservedConfiguration] = []
    proposals = Proposals(space, sampler, search_seed)
    while len(known) < count and (proposal := proposals.next(known)):
        known.append(ObservedConfiguration(proposal[0], score(proposal[0])))
    return known


def test_published_configurations_come_first_and_sampled_ones_differ_while_unfinished() -> None:
    known: list[ObservedConfiguration] = []
    for expected in (*WIDE.published, None, None):
        proposal = Proposals(WIDE, "tpe", 0).next(known)
        assert proposal is not None
        values, origin = proposal
        assert (values, origin) == (expected or values, "published" if expected else "sampled")
        known.append(ObservedConfiguration(values, None))
    assert known[2].values != known[3].values


@pytest.mark.parametrize(("sampler", "count"), [("tpe", 30), ("gp", 14), ("random", 30)])
def test_proposals_are_inside_the_space_and_follow_from_scores_and_search_seed(
    sampler: str, count: int
) -> None:
    known = searched(WIDE, sampler, count)
    assert [WIDE.contains(one.values) for one in known] == [True] * count
    assert {type(one.values["dropouts"]) for one in known} == {tuple}
    assert searched(WIDE, sampler, 14) == known[:14]
    other = searched(WIDE, sampler, 5, search_seed=1)
    assert other[:2] == known[:2]
    assert all(a != b for a, b in zip(other[2:], known[2:5], strict=True))


def test_the_first_proposals_are_the_same_in_every_release() -> None:
    epochs = [one.values["epochs"] for one in searched(WIDE, "random", 10)]
    assert epochs == [5, 1, 5, 9, 1, 5, 9, 5, 5, 1]
    assert searched(WIDE, "gp", 3) == searched(WIDE, "random", 3)


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_proposals_from_the_fifth_on_are_where_scores_are_high(sampler: str) -> None:
    late = searched(WIDE, sampler, 12, score=lambda values: float(str(values["tau"])))[4:]
    assert sum(float(str(one.values["tau"])) for one in late) / len(late) > 0.6


def test_samplers_know_the_order_of_numbers_but_not_of_lists() -> None:
    found = Proposals(WIDE, "gp", 0)._distributions
    assert found["epochs"] == IntDistribution(0, 2)
    assert found["tau"] == FloatDistribution(0.05, 1.0)
    assert isinstance(found["dropouts"], CategoricalDistribution)


def test_a_long_search_by_gp_goes_on_with_tpe() -> None:
    values = [one.values for one in searched(WIDE, "random", GP_CONFIGS)]
    known = [ObservedConfiguration(one, by_chance(one)) for one in values]
    assert Proposals(WIDE, "gp", 0).next(known) == Proposals(WIDE, "tpe", 0).next(known)
    assert Proposals(WIDE, "gp", 0).next(known[:9]) != Proposals(WIDE, "tpe", 0).next(known[:9])


OWN = """
import warnings

from optuna.samplers import CmaEsSampler, GridSampler, QMCSampler, RandomSampler, TPESampler

warnings.simplefilter("ignore")

class Text(RandomSampler):
    def sample_independent(self, study, trial, name, distribution):
        return "much"

class Exit(RandomSampler):
    def sample_independent(self, study, trial, name, distribution):
        raise SystemExit("no licence")

class Late(RandomSampler):
    def after_trial(self, study, trial, state, values):
        raise SystemExit(3)

class Far(RandomSampler):
    def sample_independent(self, study, trial, name, distribution):
        return 10 ** 6

few = lambda seed: TPESampler(seed=seed, n_startup_trials=3)
none = lambda seed: seed
grid = lambda seed: GridSampler({"tau": [0.1, 0.2]}, seed=seed)
qmc = lambda seed: QMCSampler(seed=seed, warn_asynchronous_seeding=False)
cma = lambda seed: CmaEsSampler(seed=seed)
late = lambda seed: Late(seed=seed)
far = lambda seed: Far(seed=seed)
text = lambda seed: Text(seed=seed)
leave = lambda seed: Exit(seed=seed)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(("none", "must return an Optuna sampler that .*, got int"), ("few", "")),
        *(("grid", "it raised ValueError: "), ("text", "it raised ValueError: ")),
        *(("qmc", "must return .*, got QMCSampler"), ("cma", "must return .*, got CmaEsSampler")),
        *(("leave", "it raised SystemExit: no licence"), ("late", "it raised SystemExit: 3")),
        ("far", "it raised ValueError: "),
    ],
)
def test_a_sampler_of_a_user_works_or_is_refused_in_one_line(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    if not message:
        assert len(searched(WIDE, f"own.py:{name}", 4)) == 4
        return
    with pytest.raises(SclsearchError, match=rf"^--sampler own\.py:{name}: {message}") as raised:
        searched(WIDE, f"own.py:{name}", 4)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("sampler", ["tpe", "gp", "own.py:few"])
def test_a_search_proposes_what_it_would_propose_if_it_were_resumed(
    sampler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    monkeypatch.setattr(proposals_module, "HISTORY", 20)
    monkeypatch.setattr(proposals_module, "BLOCK", 5)
    known: list[ObservedConfiguration] = []
    proposals = Proposals(WIDE, sampler, 0)
    for number in range(40 if sampler == "tpe" else 14):
        found = proposals.next(known)
        assert found is not None
        assert found == Proposals(WIDE, sampler, 0).next(known)
        known.append(ObservedConfiguration(found[0]))
        for one in known[: -(number % 4) - 1]:  # scores arrive late, and not one by one
            one.score = by_chance(dict(one.values))


def test_a_long_search_reads_the_best_and_the_latest_configurations() -> None:
    values = [one.values for one in searched(WIDE, "random", HISTORY + 100)]
    early, latest = range(100), range(590, 600)

    def proposed(best: Sequence[int], replaced: range = range(0)) -> object:
        known = [values[0] if n in replaced else one for n, one in enumerate(values)]
        scores = [n / 1000 + (n in best) for n in range(len(values))]
        return Proposals(WIDE, "tpe", 0).next(list(map(ObservedConfiguration, known, scores)))

    found = proposed(early)
    assert proposed(early, replaced=range(100, 200)) == found
    assert found not in [proposed(early, replaced=early), proposed([*early, *latest])]
    training = [
        ObservedConfiguration(one, 0.5 if n < 300 else None) for n, one in enumerate(values)
    ]
    assert proposals_module._best_and_latest(training) == [*range(100), *range(300, 600)]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "grid"])
def test_a_finite_space_is_proposed_completely_without_repetition(sampler: str) -> None:
    known = searched(FINITE, sampler, 100)
    rest = [values for values in FINITE.grid() if values != FINITE.published[0]]
    expected = [canonical(values) for values in (FINITE.published[0], *rest)]
    found = [canonical(one.values) for one in known]
    assert found == expected if sampler == "grid" else sorted(found) == sorted(expected)
    assert Proposals(FINITE, sampler, 0).next(known) is None
