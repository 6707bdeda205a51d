"""A model of a table: how its columns become numbers, the estimator, and what was measured when it was fitted."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelpursuit._warning import warn
from kernelpursuit.cli.encoding import encode, unread_texts
from kernelpursuit.cli.sources import Source, TableError, count_of, quoted
from kernelpursuit.cli.tables import Kind, Task, conform, zone_notes
from kernelpursuit.estimators.conformal import conformal_quantile


class TableModel:
    """Model of a table: an encoder of its columns, an estimator, and scores. ``kernelpursuit fit`` writes it.

    Parameters
    ----------
    encoder : ColumnTransformer
        Fitted; see `make_encoder`.
    estimator : RefinedKMPRegressor or RefinedKMPClassifier
        Fitted on what the encoder makes of the table.
    target : str
        The column that is predicted.
    task : {"regression", "classification"}
    kinds : dict
        "number", "text", "date", "zoned date" or "time" for each column that is needed.
    errors : ndarray
        Of a regression: errors of rows held out, in units of the standard deviation predicted for them, sorted.
    about : dict
        What was measured when the model was fitted: plain numbers and texts, see `kernelpursuit.cli.training`.
    labels : ndarray, optional
        Of a classification: the classes as the column of the target has them, in the order of those of the estimator,
        which are texts.
    """

    def __init__(
        self,
        encoder: Any,
        estimator: Any,
        target: str,
        task: Task,
        kinds: dict[str, Kind],
        errors: NDArray[np.float64],
        about: dict[str, Any],
        labels: NDArray[Any] | None = None,
    ) -> None:
        self.encoder = encoder
        self.estimator = estimator
        self.target = target
        self.task: Task = task
        self.kinds = kinds
        self.errors = errors
        self.about = about
        self.labels = labels

    def __getstate__(self) -> dict[str, Any]:
        """State for a model file: `about` is one text there, since a node for each of its numbers would take long."""
        return {**vars(self), "about": json.dumps(self.about)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The model of a file; in older files `about` is not a text, and classes are texts whatever they were."""
        about = state["about"]
        vars(self).update({"labels": None} | state, about=json.loads(about) if isinstance(about, str) else about)

    def __repr__(self) -> str:
        return f"TableModel({self.task} of {self.target!r} from {len(self.kinds)} columns, {self.n_terms} terms)"

    @property
    def n_terms(self) -> int:
        """Number of kernel evaluations for a prediction."""
        return len(self.estimator.centers_)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes: numbers, true and false, or texts, as the column of the target has them."""
        return self.class_names if self.labels is None else self.labels

    @property
    def class_names(self) -> NDArray[Any]:
        """The classes as texts."""
        return self.estimator.classes_

    def encode(self, table: Any) -> NDArray[np.float64]:
        """Rows of a table as the numbers that the estimator takes.

        Parameters
        ----------
        table : pandas or polars DataFrame, pyarrow Table, or dict of columns
            With the columns of `kinds`, in any order and among others.

        Returns
        -------
        ndarray of shape (n_rows, n_features)

        Warns
        -----
        UserWarning
            Where dates have a time zone and those of the training rows had none, or the reverse, and where texts are
            not the numbers or dates that they all were in training.
        """
        if isinstance(table, Source):
            return encode(self.encoder, conform(table, self.kinds))
        source = Source("table", arrow(table, self.kinds), lambda row: f"row {row + 1}")
        if source.columns.num_rows == 0:
            source.fail("no rows of data: 0 sample(s), where a minimum of 1 is required")
        frame = conform(source, self.kinds)
        for remark in self.remarks(source, frame).values():
            warn(remark)
        return encode(self.encoder, frame)

    def remarks(self, source: Source, frame: Any) -> dict[str, str]:
        """For columns that may be understood otherwise than meant a sentence; `frame` is what `conform` has made."""
        dates = zone_notes(source, self.kinds, new=True)
        found = {name: f"column {quoted(name)} has {what}; read as UTC" for name, what in dates.items()}
        for name, (meant, texts) in unread_texts(self.encoder, frame).items():
            others = f" and {count_of(len(texts) - 1, 'other text')}" if len(texts) > 1 else ""
            has = f"column {quoted(name)} has {quoted(texts[0])}{others}"
            found[name] = f"{has}, unlike the {meant} of the training rows; taken as missing"
        return found

    def predict(self, table: Any) -> NDArray[Any]:
        """Predict the target, for each row of a table (see `encode`)."""
        return self.predict_encoded(self.encode(table))

    def predict_encoded(self, X: NDArray[np.float64]) -> NDArray[Any]:
        """Predict the target of encoded rows (see `encode`)."""
        predicted = self.estimator.predict(X)
        if self.labels is None:
            return predicted
        return self.labels[np.searchsorted(self.class_names, predicted)]

    def predict_proba(self, table: Any) -> NDArray[np.float64]:
        """Probability of each class, in the order of `classes_`, for each row of a table (see `encode`)."""
        self._refuse("classification", "probabilities")
        return self.estimator.predict_proba(self.encode(table))

    def predict_interval(self, table: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """Lower and upper end of an interval that holds the target of a new row with a given probability.

        Its width follows the predicted standard deviation, and its size the errors of the rows that were held out.
        """
        self._refuse("regression", "intervals")
        return self.encoded_intervals(self.encode(table), coverage)

    def encoded_intervals(self, X: NDArray[np.float64], coverage: float, name: str = "coverage") -> NDArray[np.float64]:
        """Prediction intervals of encoded rows (see `predict_interval`); an error calls the coverage by `name`."""
        size = conformal_quantile(self.errors, coverage) if 0 < coverage < 1 else np.inf
        if not np.isfinite(size):
            rows = len(self.errors)
            limit = f"above 0 and at most {rows / (rows + 1):.3f}"
            raise TableError(f"{name} must be {limit}, as {rows} rows were held out; got {coverage}")
        middle, std = self.estimator.predict(X, return_std=True)
        half = size * std
        return np.stack([middle - half, middle + half], axis=1)

    def _refuse(self, task: Task, what: str) -> None:
        if self.task != task:
            raise TableError(f"{what} are for a {task}, and this model is a {self.task} of {self.target!r}")


def arrow(table: Any, needed: Collection[str]) -> Any:
    """A table of any of the common libraries as one of pyarrow, of which some columns are needed."""
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    if hasattr(table, "to_arrow"):  # polars
        return table.to_arrow()
    if isinstance(table, dict):
        return pa.table(dict(table))
    if not isinstance(table, pd.DataFrame):
        names = ", ".join(quoted(name) for name in list(needed)[:8]) + (", ..." if len(needed) > 8 else "")
        kinds = "a DataFrame of pandas or polars, a Table of pyarrow or a dict of columns"
        raise TypeError(f"the rows must be a table with the columns {names}: {kinds}; got {type(table).__name__}")
    if not table.columns.is_unique:  # which pyarrow does not take
        for name in needed:
            if (count := int((table.columns == name).sum())) > 1:
                raise TableError(f"table: column {quoted(name)}: {count} columns have this name")
        table = table.loc[:, ~table.columns.duplicated()]
    return pa.Table.from_pandas(table, preserve_index=False)
