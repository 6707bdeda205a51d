"""The fitted way from a frame of numbers, texts and dates to the numbers that a kernel model takes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelpursuit.cli.tables import Kind


def make_encoder(kinds: Mapping[str, Kind]) -> Any:
    """A scikit-learn transformer of frames, to be fitted on the training rows.

    Numbers keep their values in double precision; a missing one becomes the median, and a column says so. skrub's
    `TableVectorizer` sees to the rest: few texts become one column each, many the leading directions of their n-grams,
    and dates their year, month, day, hour and seconds.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from skrub import StringEncoder, TableVectorizer

    def fill() -> Any:
        return SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)

    numbers = [name for name, kind in kinds.items() if kind in ("number", "time")]
    others = [name for name in kinds if name not in numbers]
    vectorizer = TableVectorizer(high_cardinality=StringEncoder(n_components=30, random_state=0))
    steps = [("numbers", fill(), numbers)] if numbers else []
    steps += [("others", make_pipeline(vectorizer, fill()), others)] if others else []
    return ColumnTransformer(steps, verbose_feature_names_out=False)


def encode(encoder: Any, frame: Any, fit: bool = False) -> NDArray[np.float64]:
    """Rows of a frame as numbers. A text that the training rows did not have belongs to none of theirs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Found unknown categories")
        values = encoder.fit_transform(frame) if fit else encoder.transform(frame)
    return np.ascontiguousarray(values, dtype=np.float64)


def make_scaler() -> Any:
    """A scikit-learn transformer that standardises what the encoder makes, however far from 0 it is.

    Centred first: of numbers far from 0, such as ids of 16 digits, `StandardScaler` cannot tell the spread from
    rounding. It takes them for constant and leaves them as wide as they are, so that a kernel sees nothing else.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(with_std=False), StandardScaler())


def minus_medians(frame: Any) -> Any:
    """A frame for trees: the numbers of each column less their median.

    To trees that is the same, but skrub hands them numbers in single precision, which far from 0 are all alike.
    """
    near, numbers = frame.copy(), frame.select_dtypes("float64")
    near[list(numbers)] = numbers - numbers.median()
    return near


def unseen_texts(encoder: Any, frame: Any) -> dict[str, list[str]]:
    """Texts of a frame that belong to none of the columns made of the training rows', by column."""
    found: dict[str, list[str]] = {}
    for name, step, _ in encoder.transformers_:
        for column, encoding in step[0].transformers_.items() if name == "others" else ():
            if hasattr(encoding, "categories_"):
                known = set(encoding.categories_[0])
                new = [text for text in frame[column].dropna().unique() if text not in known]
                found |= {column: new} if new else {}
    return found


def unread_texts(encoder: Any, frame: Any) -> dict[str, tuple[str, list[str]]]:
    """Texts that are missing values to the encoder, by column.

    skrub takes texts for numbers or for dates of one form where those of all training rows are. What is something else
    in new rows it takes for missing, without a word.

    Returns
    -------
    dict
        "numbers" or "dates", and the texts.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for name, step, _ in encoder.transformers_:
        for column, steps in step[0].all_processing_steps_.items() if name == "others" else ():
            meant = [{"ToFloat": "numbers", "ToDatetime": "dates"}.get(type(one).__name__) for one in steps]
            if frame[column].dtype.kind != "O" or not any(meant):
                continue
            last = next(i for i, what in enumerate(meant) if what)
            before = frame[column]
            for one in steps[:last]:
                before = one.transform(before)
            lost = before[before.notna() & steps[last].transform(before).isna()]
            found |= {column: (str(meant[last]), list(lost.unique()))} if len(lost) else {}
    return found


def source_columns(encoder: Any) -> list[str]:
    """For each encoded feature the column of the table that it comes from."""
    found: list[str] = []
    for name, step, columns in encoder.transformers_:
        if name == "numbers":
            found += [*columns, *(columns[i] for i in step.indicator_.features_)]
        elif name == "others":
            vectorizer, fill = step
            source = {output: column for column, outputs in vectorizer.input_to_outputs_.items() for output in outputs}
            of_outputs = [source[output] for output in vectorizer.get_feature_names_out()]
            found += [*of_outputs, *(of_outputs[i] for i in fill.indicator_.features_)]
    return found
