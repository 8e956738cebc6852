"""Tests of the estimator: scikit-learn's checks, model selection, labels, storage and errors."""

import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import ClassifierTags, Tags, TargetTags, estimator_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from sclsearch import Classifier, SclsearchError, load, select
from tests.conftest import WORDS
from tests.studies import in_process

pytestmark = pytest.mark.filterwarnings("ignore:The winner is useless")
Options = dict[str, Any]
TUTORIALS = Path(__file__).parents[1] / "docs/tutorials"
TEXTS = [f"the film was {word} and {other}" for word in WORDS[8:] for other in WORDS[4:8]]
GOOD = [number < len(TEXTS) // 2 for number in range(len(TEXTS))]


@pytest.fixture(scope="module")
def options(tiny_bert: Path) -> Iterator[Options]:
    """Return parameters of a short search, whose seed runs are trained in this process."""
    settings = {"epochs": 8, "max_length": 12, "batch_size": 8, "learning_rate": 0.01}
    usual = {"model": str(tiny_bert), "configs": 1, "seeds": 1, "gpus_per_trial": 0}
    with in_process():
        yield {**usual, "settings": settings, "progress": False}


class OfNumbers(Classifier):
    """Classifier of rows of numbers, which scikit-learn's checks have, written as words."""

    def fit(self, X: Any, y: Any) -> Classifier:
        X, y = validate_data(self, X, y)
        return super().fit(words(X), y)

    def predict_proba(self, X: Any) -> Any:
        check_is_fitted(self)
        return super().predict_proba(words(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self) -> Any:
        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags())


def words(X: Any) -> list[str]:
    bins = np.clip(X * 2 + 4, 0, 7).astype(int) + 8 * (np.arange(X.shape[1]) % 2)
    return [f"{' '.join(WORDS[n] for n in row)} {X[number]}" for number, row in enumerate(bins)]


@pytest.mark.parametrize(
    "check",
    [
        *("estimator_cloneable", "estimator_tags_renamed", "valid_tag_types", "estimator_repr"),
        *("no_attributes_set_in_init", "do_not_raise_errors_in_init_or_set_params", "mixin_order"),
        *("parameters_default_constructible", "get_params_invariance", "set_params"),
        *("fit_score_takes_y", "estimators_unfitted", "fit_check_is_fitted", "requires_y_none"),
        *("estimators_fit_returns_self", "dont_overwrite_parameters", "dict_unchanged"),
        *("estimators_pickle", "fit_idempotent", "methods_subset_invariance"),
        *("methods_sample_order_invariance", "pipeline_consistency", "n_features_in"),
        *("classifiers_classes", "classifiers_train", "classifiers_one_label", "complex_data"),
        *("classifiers_regression_target", "supervised_y_no_nan", "estimators_empty_data_messages"),
        *("estimator_sparse_array", "estimator_sparse_matrix", "fit2d_1sample", "fit1d"),
    ],
)
def test_a_check_of_scikit_learn_passes(check: str, options: Options) -> None:
    short = {**options["settings"], "epochs": 4, "batch_size": 16}
    estimator = OfNumbers(**{**options, "settings": short})
    getattr(estimator_checks, f"check_{check}")("OfNumbers", estimator)


@pytest.mark.parametrize(
    "labels",
    [GOOD, np.where(GOOD, 10, 9), np.where(GOOD, 2.0, 1.0), pd.Series(np.where(GOOD, "ja", "né"))],
)
def test_labels_come_back_as_given(labels: Any, options: Options) -> None:
    classifier = Classifier(**options).fit(TEXTS, labels)
    found = classifier.predict(pd.Series(TEXTS))
    assert classifier.classes_.tolist() == sorted({*labels})
    assert classifier.score(TEXTS, labels) > 0.9
    assert found.dtype == np.asarray(labels).dtype
    assert (classifier.predict_proba(TEXTS).argmax(1) == (found == classifier.classes_[1])).all()


def test_a_fitted_estimator_can_be_pickled_and_leaves_no_files(
    options: Options, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    classifier = Classifier(**options).fit(TEXTS, GOOD)
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    assert again.report_ == classifier.report_
    assert not [*folder.iterdir()]
    with pytest.raises(SclsearchError, match="Unknown study"):
        classifier.report_.frame()


@pytest.mark.parametrize("pooling", ["cls_pooled", "mean"])
def test_a_fitted_estimator_is_saved_as_an_export(
    pooling: str, options: Options, tmp_path: Path
) -> None:
    settings = {**options["settings"], "pooling": pooling}
    classifier = Classifier(**{**options, "settings": settings})
    with pytest.raises(NotFittedError, match="not fitted yet"):
        classifier.save(tmp_path / "model")
    classifier.fit(TEXTS, GOOD).save(tmp_path / "model")
    found = load(tmp_path / "model").predict_proba(TEXTS)
    assert found == pytest.approx(classifier.predict_proba(TEXTS), abs=1e-6)
    with pytest.raises(SclsearchError, match="is not an empty folder"):
        classifier.save(tmp_path / "model")


def test_a_search_in_a_storage_is_kept_and_resumed(options: Options, folder: Path) -> None:
    pairs = [("the film", text) for text in TEXTS]
    classifier = Classifier(**options, storage=folder / "s").fit(pairs, GOOD)
    assert select(classifier.report_.study, storage=folder / "s") == classifier.report_
    times = [path.stat().st_mtime_ns for path in sorted((folder / "s" / "runs").iterdir())]
    again = clone(classifier).fit(pairs, GOOD)
    assert np.array_equal(again.predict_proba(pairs), classifier.predict_proba(pairs))
    assert times == [path.stat().st_mtime_ns for path in sorted((folder / "s" / "runs").iterdir())]


def test_model_selection_of_scikit_learn(options: Options) -> None:
    pipeline = make_pipeline(FunctionTransformer(), Classifier(**options))
    assert cross_val_score(pipeline, TEXTS, GOOD, cv=2).mean() > 0.5
    grid = GridSearchCV(Classifier(**options), {"method": ["ce", "scl"]}, cv=2, refit=False)
    assert {*grid.fit(np.array(TEXTS), GOOD).cv_results_["param_method"]} == {"ce", "scl"}


@pytest.mark.parametrize(
    ("texts", "labels", "message"),
    [
        (["a", "b"], [0], "Found input variables with inconsistent numbers of samples"),
        ([], [], "Found array with 0 sample"),
        (["a", "b"], ["x", "x"], r"^y: must have at least 2 classes, got 1 class: \['x'\]"),
        (["a", "b", "c"], ["1", "1.0", "2"], r"^y: the labels must be distinct words, got \['1',"),
        (["a", "b", "c"], ["x", None, "y"], "^y: row 1 lacks a label, got None"),
        (["a", "b", "c"], ["x", "y", float("nan")], "^y: row 2 lacks a label, got nan"),
        (["a", " "], [0, 1], r"^text 1: a text is empty"),
        (["a", None], [0, 1], r"^text 1: must be a text or a pair of texts, got None"),
    ],
)
def test_wrong_texts_and_labels_are_one_sentence(
    texts: Any, labels: Any, message: str, options: Options
) -> None:
    with pytest.raises((ValueError, SclsearchError), match=message) as raised:
        Classifier(**options).fit(texts, labels)
    assert "\n" not in str(raised.value)
    with pytest.raises(TypeError, match=r"keyword argument 'epochs'\. Pass hyperparameters as set"):
        Classifier(epochs=3)  # type: ignore[call-arg]
    for methods in (["ce", "scl"], "ce,scl"):
        with pytest.raises(ValueError, match=r"^method: must be one, got "):
            Classifier(**{**options, "method": methods}).fit(TEXTS, GOOD)


@pytest.mark.parametrize("name", ["lists", "frame", "dataset"])
def test_code_of_the_tutorial_predicts_labels(
    name: str, options: Options, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (TUTORIALS / "own-data.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf'```python title="{name}.py"\n(.*?)```', page, re.DOTALL)
    short = {**options, "settings": {"epochs": 1, "max_length": 16}, "tracking": "none"}
    arguments = ", ".join(f"{option}={value!r}" for option, value in short.items())
    code = code.replace('model="minilm", configs=3', arguments).replace(
        '"all"', '"all", force=True'
    )
    rows = pd.read_csv(shutil.copy(TUTORIALS / "tickets.csv", folder))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "cache")
    printed: list[Any] = []
    exec(code, {"texts": rows["text"], "labels": rows["team"], "print": printed.append})
    assert len(printed[0]) == 1
