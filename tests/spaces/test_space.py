"""Tests of spaces and their files, of the shipped ones, and of practical ones for an encoder."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sclsearch.canonical import canonical
from sclsearch.encoders.models import EncoderTraits
from sclsearch.errors import SclsearchError
from sclsearch.methods import METHODS, method_class
from sclsearch.methods.fields import build
from sclsearch.methods.scl import CE, SCL
from sclsearch.spaces.load import (
    covering_length,
    find_space,
    load_space,
    practical_file,
    practical_space,
    shipped_spaces,
    space_files,
    space_summaries,
)
from sclsearch.spaces.space import Choice, Parameter, Range, Space

PROBE: dict[str, Parameter] = {"mode": Choice(("eval", "train")), "tau": Choice((0.1, 0.3))}


def space(
    parameters: Mapping[str, Parameter], *published: Mapping[str, object], **fixed: object
) -> Space:
    return Space("scl", "a paper", parameters, published, fixed, "mine.yaml")


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Draw choices and published points."""
    parameters: dict[str, Parameter] = {}
    for name in "abcd"[: draw(st.integers(0, 4))]:
        values = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True))
        parameters[name] = Choice(tuple(values))
    points = list(space(parameters).grid())
    return space(parameters, *draw(st.lists(st.sampled_from(points), max_size=3)), batch_size=16)


SETTINGS = st.dictionaries(st.sampled_from("abcdx"), st.integers(0, 5), max_size=3)


@given(spaces())
def test_a_grid_has_each_configuration_exactly_once_with_the_last_parameter_fastest(
    base: Space,
) -> None:
    points = list(base.grid())
    assert all(base.contains(values) for values in points)
    choices = [one for one in base.parameters.values() if isinstance(one, Choice)]
    ranks = [
        [choice.values.index(value) for choice, value in zip(choices, point.values(), strict=True)]
        for point in points
    ]
    assert ranks == sorted(ranks)
    assert len({canonical(values) for values in points}) == len(points) == base.size()


@given(spaces(), SETTINGS)
def test_settings_are_fixed_and_leave_a_valid_space(
    base: Space, settings: Mapping[str, object]
) -> None:
    after = base.with_settings(settings)
    assert after.fixed == {"batch_size": 16, **settings}
    assert not after.parameters.keys() & after.fixed.keys()
    assert all(after.contains(values) for values in after.published)
    assert len({canonical(values) for values in after.published}) == len(after.published)
    assert after.with_settings({}).start == ("start" if settings else "published")


def test_a_spec_depends_only_on_parameters_published_and_fixed_values() -> None:
    base = space(PROBE, {"mode": "train", "tau": 0.1}, batch_size=16)
    elsewhere = Space("scl", "another", base.parameters, base.published, base.fixed, "b.yaml")
    assert elsewhere.spec() == base.spec()
    others = [
        space(dict(reversed(PROBE.items())), *base.published, batch_size=16),
        space(PROBE, batch_size=16),
        space(PROBE, *base.published, batch_size=32),
        base.with_settings({"tau": 0.1}),
    ]
    assert all(canonical(other.spec()) != canonical(base.spec()) for other in others)


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Choice((1, "mean", (0.0, 0.1))), (1.0, "mean", [0.0, 0.1]), (0.2, "max", (0.1,), True)),
        (Range(0.0, 0.2, "float"), (0.0, 0.2, 0), (-0.1, 0.21, False, "0.1", None, math.nan)),
        (Range(1e-5, 1e-3, "log"), (1e-5, 1e-3), (0.0, 9e-6, 2e-3)),
    ],
)
def test_a_parameter_contains_its_values_and_no_others(
    parameter: Parameter, inside: tuple[object, ...], outside: tuple[object, ...]
) -> None:
    assert [value for value in inside if not parameter.contains(value)] == []
    assert [value for value in outside if parameter.contains(value)] == []


GOOD = """
method: supcl-seq
source: Sedghamiz et al. 2021
published:
  - {dropouts: [0, 0.1], probe_learning_rate: 1e-3, batch_size: 16}
  - {dropouts: [0.1, 0.1], probe_learning_rate: 1e-2}
fixed: {batch_size: 16, tau: 1}
space:
  dropouts: {type: choice, values: [[0, 0.1], [0.1, 0.1]]}
  probe_learning_rate: {type: log, low: 1e-4, high: 1e-2}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a valid file that uses every section."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    return path


def test_loaded_values_have_the_types_of_the_method_fields(file: Path) -> None:
    space = load_space(file, "supcl-seq")
    assert space.parameters == {
        "dropouts": Choice(((0.0, 0.1), (0.1, 0.1))),
        "probe_learning_rate": Range(1e-4, 1e-2, "log"),
    }
    assert space.published == (
        {"dropouts": (0.0, 0.1), "probe_learning_rate": 1e-3},
        {"dropouts": (0.1, 0.1), "probe_learning_rate": 1e-2},
    )
    assert space.fixed == {"batch_size": 16, "tau": 1.0}
    assert type(space.fixed["tau"]) is float


@dataclass(frozen=True, slots=True)
class Mine(CE):
    """A custom method."""


def test_a_space_is_of_one_method_and_a_custom_one_is_named_by_its_class(file: Path) -> None:
    file.write_text("method: scl\nsource: x\nspace: {}\n")
    assert load_space(file, SCL).size() == 1
    file.write_text("method: Mine\nsource: x\nfixed: {pooling: mean}\nspace: {}\n")
    assert load_space(file, Mine).fixed == {"pooling": "mean"}
    with pytest.raises(SclsearchError, match=r"^mine.yaml: method: Unknown method 'Mine'\."):
        load_space(file, None)


def test_a_task_without_a_file_uses_that_of_a_similar_task_or_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "scl").mkdir()
    for added in ("paper", "mnli", "mnli-mm"):
        (tmp_path / "scl" / f"{added}.yaml").touch()
        assert find_space("scl", "mnli-mm", tmp_path).stem == added
    assert find_space("scl", "mnli", tmp_path).stem == "mnli"
    assert find_space("scl", "rte", tmp_path).stem == "paper"
    with pytest.raises(SclsearchError, match=r"rte\.yaml nor paper\.yaml"):
        find_space("ce", "rte", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "source: S",
            "tau: {}\ntau: {}\nsource: S",
            "invalid YAML: while constructing a ",
        ),
        ("source: S", "source: &one S\nfixed: *one", "invalid YAML: aliases, such as *name"),
        ("method: supcl-seq", "method: supcl-sec", "method: Unknown method 'supcl-sec'. Did you"),
        ("type: choice", "type: choise", "space.dropouts: input tag 'choise' found using"),
        (
            "[[0, 0.1], [0",
            "[[0, 0.1], [0.0, 0.1], [0",
            "space.dropouts.choice: values must differ, got",
        ),
        (
            "[[0, 0.1], [0",
            "[[0, 1.5], [0, 0.1], [0",
            "space.dropouts.choice.values[0][1]: must be less than 1",
        ),
        (
            "low: 1e-4",
            "low: 0",
            "space.probe_learning_rate.log.low: must be greater than 0",
        ),
        (
            "high: 1e-2}",
            "high: 1e-2}\n  chunk_tokens: {type: choice, values: [1, 2]}",
            "space.chunk_tokens: changes memory and time",
        ),
        ("tau: 1}", "tua: 1}", "fixed.tua: unknown key. Did you mean 'tau'? Known: "),
        ("tau: 1}", "tau: 1, dropouts: [0, 0.1]}", "fixed.dropouts: must be fixed or searched"),
        ("batch_size: 16}\n  -", "batch_size: 8}\n  -", "published[0]: batch_size must be 16 as i"),
        ("batch_size: 16}\n  -", "epochs: 8}\n  -", "published[0]: epochs is neither in `space` n"),
        (", probe_learning_rate: 1e-2}", "}", "published[1]: probe_learning_rate is missing"),
        (
            "[[0, 0.1], [0",
            f"[{'[0, 0.1], ' * 1_000}[0",
            "space.dropouts.choice.values: tuple should have at most 1000 items",
        ),
        ("tau: 1}", "tau: 1}\n" + "".join(f"k{n}: 1\n" for n in range(30)), "30 faults in all"),
    ],
)
def test_an_error_names_its_place(file: Path, old: str, new: str, message: str) -> None:
    assert load_space(file, None).parameters
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SclsearchError) as raised:
        load_space(file, None)
    lines = str(raised.value).splitlines()
    assert any(line.startswith(f"mine.yaml: {message}") for line in lines), lines


NAMES = [f"{path.parent.name}/{path.stem}" for path in space_files()]
OF_PAPERS = [name for name in NAMES if not name.endswith("/practical")]
MOST_TRIED = 60  # a header proposes at most so many configurations
SMALL = EncoderTraits(384, 6, "bert", 512, pooler=True, sentence_pooling="mean")
LARGE = EncoderTraits(1024, 24, "roberta", 512, pooler=False)


def practical(method: str, traits: EncoderTraits, max_length: int = 48) -> Space:
    space = load_space(practical_file(method), method)
    return practical_space(space, method_class(method), traits, max_length, 0.0)


def test_methods_have_both_spaces_and_supcl_seq_has_one_for_each_glue_task() -> None:
    assert {f"{method}/{kind}" for method in METHODS for kind in ("paper", "practical")} <= {*NAMES}
    glue = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
    assert {f"supcl-seq/{task}" for task in glue} <= {*NAMES}
    assert {name for name, source in space_summaries().items() if source} == {*NAMES}
    scl = load_space(find_space("scl", "cola"), "scl")
    assert (scl.size(), scl.published) == (24, ({"tau": 0.3, "lam": 0.9},))


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_papers_space_is_valid_and_its_header_shows_command_and_size(name: str) -> None:
    method, _, task = name.partition("/")
    path = shipped_spaces() / f"{name}.yaml"
    space = load_space(path, method)
    assert space.published
    for values in space.published:
        build(method_class(method), {**space.fixed, **values}, space.file)
    size = space.size()
    header = path.read_text(encoding="utf-8").partition("\nmethod:")[0]
    assert f"#   sclsearch tune --method {method} --task " in header
    assert size is not None
    tried = min(size, MOST_TRIED)
    assert f" --configs {tried}\n" in header
    share = f"{tried} of {size}" if tried < size else str(size)
    assert f"# Cost: {share} configuration{'s' * (size > 1)} x " in header
    assert task == "paper" or f" --task {task} " in header


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("traits", [SMALL, LARGE], ids=["small", "large"])
def test_all_methods_search_the_same_learning_rates_around_the_start(
    method: str, traits: EncoderTraits
) -> None:
    space, start = practical(method, traits), traits.learning_rate
    searched = space.parameters["learning_rate"]
    assert isinstance(searched, Range)
    assert (searched.low, searched.high) == pytest.approx((start / 5, start * 3), rel=0.03)
    assert space.published[0]["learning_rate"] == start
    assert space.fixed["max_length"] == 48
    after = space.fixed.get("post_learning_rate", start / 2)
    assert after == pytest.approx(start / 2, rel=0.03)
    assert space.start == "start"
    for values in space.published:
        assert space.contains(values)
        build(method_class(method), {**space.fixed, **values}, space.file)


@pytest.mark.parametrize(
    ("kind", "pooler", "trained", "pooling"),
    [
        *(("bert", True, "mean", "mean"), ("mpnet", False, "cls", "cls_raw")),
        *(("bert", True, "", "cls_pooled"), ("roberta", False, "", "head_hidden")),
        *(("electra", False, "", "cls_raw"), ("gpt2", False, "", "mean")),
    ],
)
def test_a_head_reads_what_the_encoder_was_trained_for_or_what_its_architecture_reads(
    kind: str, pooler: bool, trained: Any, pooling: str
) -> None:
    traits = EncoderTraits(768, 12, kind, 512, pooler=pooler, sentence_pooling=trained)
    fixed = practical("scl", traits).fixed
    assert (fixed["pooling"], fixed["scl_features"]) == (pooling, "mean")
    assert practical("supcl-seq", traits).fixed["pooling"] == "mean"


@pytest.mark.parametrize(
    ("width", "start", "heads"),
    [(64, 1e-3, (1, 2, 4, 8)), (768, 2.5e-5, (1, 2, 3, 4, 6, 8, 12)), (1024, 1.4e-5, (1, 2, 4, 8))],
)
def test_the_start_falls_with_the_square_of_the_width_which_the_heads_of_lacon_divide(
    width: int, start: float, heads: tuple[int, ...]
) -> None:
    space = practical("lacon", EncoderTraits(width, 6, "bert", None, pooler=False))
    assert space.published[0]["learning_rate"] == start
    assert space.parameters["heads"] == Choice(heads)


def test_the_maximum_length_covers_95_percent_of_the_texts() -> None:
    for few, positions, expected in ((5, 512, 24), (6, 512, 512), (6, None, 512), (100, 64, 64)):
        assert covering_length([20] * (100 - few) + [500] * few, positions) == expected
    assert covering_length([3], 512) == 16
