"""Estimator in the style of scikit-learn: a search and a model of all its rows in one `fit`."""

import inspect
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

import sclsearch
from sclsearch.arguments import with_options
from sclsearch.encoders.models import encoder_folder, several_models
from sclsearch.exports.export import new_export, write_folder
from sclsearch.exports.predictor import text_rows
from sclsearch.study.spec import DEFAULT_METHOD, ClassifierKeywords, RunOptions, StudySpec
from sclsearch.tasks import load_task
from sclsearch.tasks.custom import CustomTask

if TYPE_CHECKING:
    import numpy.typing as npt

    from sclsearch.methods.base import Method

NAME = "texts"
"""Name of the task in reports."""


class Classifier(ClassifierMixin, BaseEstimator):
    """Text classifier for scikit-learn: `fit` searches the best configuration and trains it.

    `fit` runs `sclsearch.tune` on the texts, trains the winner once more on all of them, and keeps
    the model in memory. The parameters are the options of `tune`, and `fit` validates them.
    Hyperparameters of the method and the training are items of `settings`.

    Example:
        >>> classifier = Classifier(model="minilm", settings={"epochs": 8})  # doctest: +SKIP
        >>> classifier.fit(texts, labels).predict(["a fine film"])  # doctest: +SKIP

    Without `storage`, `fit` deletes the files of the search at its end. With `storage`, the same
    call resumes the search or reads it, and `report_.study` is its name for other functions.

    `check_estimator` of scikit-learn skips estimators of texts. Its checks of sparse, complex and
    infinite input and of `n_features_in_` cannot hold.

    Attributes:
        classes_: The distinct labels, sorted; the order of the columns of `predict_proba`.
        report_: `Report` of the search, whose estimate or test score is that for new texts. Its
            data frames, and the command that it recommends, need `storage`.
        predictor_: `Predictor` with the trained model.
    """

    @with_options(CustomTask, StudySpec, RunOptions, settings=None, storage=None, tracking="none")
    def __init__(
        self,
        *,
        method: "str | type[Method]" = DEFAULT_METHOD,
        progress: bool = True,
        **options: Unpack[ClassifierKeywords],
    ) -> None:
        try:
            bound = inspect.signature(Classifier).bind(method=method, progress=progress, **options)
        except TypeError as error:
            hint = 'Pass hyperparameters as settings, such as settings={"epochs": 4}.'
            raise TypeError(f"Classifier: {error}. {hint}") from None
        bound.apply_defaults()
        self.__dict__.update(bound.arguments)

    def fit(self, X: Any, y: Any) -> "Classifier":
        """Search for the best configuration, train it on all rows and return the estimator.

        `X` are texts, or pairs of texts, and `y` their labels: text, integers or truth values.

        Raises:
            ValueError: The texts or labels are empty, of different lengths or of one class.
            SclsearchError: A text or a parameter is invalid, or the search failed.
        """
        if isinstance(self.method, list | tuple) or "," in str(self.method):
            raise ValueError(f"method: must be one, got {self.method!r}. Use tune for several.")
        if len(several_models(self.model)) > 1:
            raise ValueError(f"model: must be one, got {self.model!r}. Use tune for several.")
        labels = np.array([] if y is None else y, object)  # the check makes text of a NaN
        if pd.isna(labels).any():
            row = int(pd.isna(labels).argmax())
            raise ValueError(f"y: row {row} lacks a label, got {labels.flat[row]}. Leave it out.")
        X, y = check_X_y(X, y, dtype=object, ensure_2d=False, estimator=self)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y: must have at least 2 classes, got 1 class: {self.classes_}.")
        rows = text_rows(X, NAME, pair=X.ndim == 2 and X.shape[1] == 2)
        columns = ["text", "text_pair"][: len(rows[0])]
        frame: Any = pd.DataFrame(rows, columns=columns)
        frame["label"] = np.array(self._names(), object)[numbers]
        with TemporaryDirectory(prefix="sclsearch-") as folder:
            self._search(frame, columns, Path(folder))
        return self

    def _search(self, frame: Any, columns: list[str], folder: Path) -> None:
        """Search and train on a table of texts and labels; `folder` is temporary."""
        path = folder / f"{NAME}.parquet"
        if self.storage is None:
            frame.to_parquet(path)
        else:
            path = CustomTask(frame, columns, "label", name=NAME).path
        if {*load_task(CustomTask(path, columns, "label")).task.labels} != {*self._names()}:
            raise ValueError(f"y: the labels must be distinct words, got {self._names()}.")
        given = {name: one for name, one in self.get_params(deep=False).items() if one is not None}
        storage = given.setdefault("storage", folder / "storage")
        report = sclsearch.tune(task=path, text=columns, label="label", **given)
        if report.verdict:
            warnings.warn(" ".join(report.verdict.lines[:2]), stacklevel=3)
        model, method, study = folder / "model", self.method, report.study
        sclsearch.export(study, model, storage=storage, refit="all", method=method, force=True)
        self.report_, self.predictor_ = report, sclsearch.load(model, method=method)
        files = (file for file in model.rglob("*") if file.is_file())
        self._files = {
            str(file.relative_to(model)): file.read_bytes()
            for file in files
            if file.suffix != ".safetensors"  # `predictor_` has the weights
        }

    def save(self, folder: Path | str) -> None:
        """Write the fitted model to a folder, as `sclsearch export` does; it is empty or missing.

        `sclsearch.load`, `sclsearch predict` and transformers load it, as those of `export`.

        Raises:
            NotFittedError: `fit` has not run.
            SclsearchError: The folder is not empty or not writable.
        """
        check_is_fitted(self)
        (one,) = self.predictor_.members
        weights = {name: tensor.cpu() for name, tensor in one.model.state_dict().items()}
        with TemporaryDirectory(prefix="sclsearch-") as near, new_export(Path(folder)) as part:
            begun = Path(near)
            self._write_files(begun)
            write_folder(part, weights, encoder_folder(begun), one.record)
            self._write_files(part)

    def _write_files(self, folder: Path) -> None:
        for name, content in self._files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)

    def predict(self, X: Any) -> "npt.NDArray[Any]":
        """Return the most probable label of each text."""
        likely = self.predict_proba(X)  # raises NotFittedError before `classes_` is read
        return np.asarray(self.classes_[likely.argmax(axis=1)])

    def predict_proba(self, X: Any) -> "npt.NDArray[np.float32]":
        """Return the probability of each class, `[texts, C]`, in the order of `classes_`."""
        check_is_fitted(self)
        texts = check_array(X, dtype=object, ensure_2d=False, estimator=self)
        order = [self.predictor_.labels.index(name) for name in self._names()]
        return self.predictor_.predict_proba(texts)[:, order]

    def _names(self) -> list[str]:
        """Return the labels as text, in the order of `classes_`; whole numbers without decimals."""
        return [str(int(one) if isinstance(one, float) else one) for one in self.classes_.tolist()]

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: the input is a list of texts."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags
