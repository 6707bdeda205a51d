"""The models that ours are compared with have a fair chance, whatever the columns of a table are like."""

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("skrub")

from kernelpursuit.cli.contenders import make_split  # noqa: E402
from kernelpursuit.cli.encoding import encode, make_encoder, make_scaler, minus_medians  # noqa: E402
from kernelpursuit.cli.tables import Table  # noqa: E402
from kernelpursuit.cli.training import peer_errors  # noqa: E402

ROWS = 300
FAR = 4_000_000_000_000_000  # as of an order number; all numbers up to twice that are exact in float64


def table(start, task="regression"):
    """A target that follows a sequential number, which begins at `start`, and a column with gaps."""
    rng = np.random.default_rng(0)
    number, b = rng.permutation(ROWS).astype(float), rng.normal(size=ROWS)
    y = np.sin(number / 40) + b + 0.1 * rng.normal(size=ROWS)
    y = y if task == "regression" else np.where(y > 0, "high", "low")
    b[::7] = np.nan
    frame = pd.DataFrame({"number": start + number, "b": b, "kind": [f"k{i % 3}" for i in range(ROWS)]})
    return Table("t.csv", frame, y, "y", task, {"number": "number", "b": "number", "kind": "text"})


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_number_far_from_zero_changes_no_peer_of_fit(task):
    """StandardScaler takes it for constant, skrub rounds it to one value: SVR erred by 0.9 instead of 0.2."""
    train, test = np.arange(200), np.arange(200, ROWS)
    found = []
    for start in (0, FAR):
        one = table(start, task)
        encoder = make_encoder(one.kinds)
        X = encode(encoder, one.frame.iloc[train], fit=True)
        found.append(peer_errors(one, train, test, X, encode(encoder, one.frame.iloc[test]), seed=0))
    near, far = ({one["model"]: one["error"] for one in listed} for listed in found)
    assert len(near) == 4 and far == pytest.approx(near, rel=1e-6)


def test_a_number_far_from_zero_changes_nothing_that_is_compared():
    near, far = (make_split(table(start), seed=0) for start in (0, FAR))
    np.testing.assert_allclose(far.X_train.std(axis=0), 1.0)
    for rows in ("train", "test"):
        far_rows, near_rows = ({name: getattr(one.inputs[name], rows) for name in one.inputs} for one in (far, near))
        np.testing.assert_allclose(far_rows["kernels"], near_rows["kernels"], atol=1e-9)
        pd.testing.assert_frame_equal(far_rows["trees"], near_rows["trees"])


def test_texts_dates_and_gaps_stay_as_they_are():
    dates = pd.to_datetime(["2024-01-01", None, "2024-01-03"])
    frame = pd.DataFrame({"a": [1.0, np.nan, 4.0], "none": np.nan, "when": dates, "kind": ["x", None, "y"]})
    found = minus_medians(frame)
    pd.testing.assert_frame_equal(found[["none", "when", "kind"]], frame[["none", "when", "kind"]])
    np.testing.assert_array_equal(found["a"], [-1.5, np.nan, 1.5])
    assert list(found) == list(frame) and frame["a"][0] == 1.0
    pd.testing.assert_frame_equal(minus_medians(frame[["when", "kind"]]), frame[["when", "kind"]])


def test_a_constant_stays_one_where_it_is_scaled():
    for value in (0.1, 1e16 / 3):
        np.testing.assert_allclose(make_scaler().fit_transform(np.full((300, 1), value)), 0.0, atol=1e-9)
