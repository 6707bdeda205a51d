"""Random files in the form of the data sets, for machines without the real ones: they run the code, no more."""

import numpy as np

from papers import datasets

CLASSES = {"usps": np.arange(10), "mfeat": np.arange(10), "covtype": np.arange(1, 8)}  # the others: -1 and +1
SMALLER = {"covtype": datasets._dense(3000, 54), "usps": datasets._dense(700, 256) | datasets._dense(700, 256, "_test")}
REGRESSION = {"abalone", "bodyfat", "cal_housing", "cpusmall", "housing", "mg", "mpg", "pyrim", "space_ga", "triazines"}


def write(name, folder):
    """Write NAME.npz with arrays of the right names and shapes."""
    rng = np.random.default_rng(len(name))
    shapes = datasets._SETS[name][0]
    arrays = {}
    for key in (key for key in shapes if key == "y" or key.startswith("y_")):
        (rows,) = shapes[key]
        part = key[1:]
        classes = CLASSES.get(name, np.array([-1, 1]))
        y = classes[rng.integers(len(classes), size=rows)]
        if name in ("dexter", "dorothea"):
            arrays |= compressed(y, part, {"dexter": 20_000, "dorothea": 100_000}[name], rng)
        elif name == "mushrooms":
            arrays |= {
                "n_categories": np.full(22, 5),
                "X": np.where(y > 0, 1, 3)[:, None] + rng.integers(-1, 2, (rows, 22)),
            }
        elif name == "covtype":  # ten measurements, of which some tell class 2 from the others, then indicators
            measured = rng.integers(-300, 300, (rows, 10), dtype=np.int16)
            measured[:, :5] += 150 * (y == 2)[:, None].astype(np.int16)
            arrays["X"] = np.hstack([measured, rng.integers(2, size=(rows, 44), dtype=np.int16)])
        else:
            views = [view for view, shape in shapes.items() if len(shape) == 2 and view.startswith("X" + part)] or [
                view for view, shape in shapes.items() if len(shape) == 2 and shape[0] == rows
            ]
            arrays |= {view: inputs(y, shapes[view][1], rng) for view in views if "idx" not in view}
        arrays[key] = np.sin(arrays["X"][:, 0]) + 0.1 * rng.normal(size=rows) if name in REGRESSION else y
    if name == "arcene":  # intensities
        arrays |= {key: np.abs(arrays[key]) for key in ("X", "X_valid")}
    for key in ("train_idx", "made_train_idx"):
        if key in shapes:
            rows, size = len(arrays["y"]), shapes[key][1]
            arrays[key] = np.array([rng.permutation(rows)[:size] for _ in range(10)])
    np.savez(folder / f"{name}.npz", **arrays)


def inputs(y, columns, rng):
    """Classes a little apart, in most columns."""
    return (rng.normal(size=(len(y), columns)) + 0.3 * np.sin(np.outer(y, np.arange(1, columns + 1)))).astype("f4")


def compressed(y, part, columns, rng, entries=30):
    """Rows with few entries, those of the first class more often in the first columns."""
    indices = rng.integers(columns, size=(len(y), entries))
    indices[y > 0, :10] = rng.integers(50, size=(np.sum(y > 0), 10))
    indices = [np.unique(row) for row in indices]
    found = {f"indices{part}": np.concatenate(indices), f"indptr{part}": np.cumsum([0, *map(len, indices)])}
    found[f"data{part}"] = np.ones(len(found[f"indices{part}"]))
    return found | {"shape": np.array([len(y), columns])}
