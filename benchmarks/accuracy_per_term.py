"""How low an error a number of terms can buy: refined pursuit beside its peers, on the same splits, in the same run.

    python benchmarks/accuracy_per_term.py --jobs 16            # everything, a quarter of an hour
    python benchmarks/accuracy_per_term.py --sets mpg housing --terms 10 30 --splits 2 --jobs 2

Every result is kept in a file of records and never measured again; the same command goes on after an interruption, and
``--summary`` prints what is there. ``--seconds`` ends a run in time: what would take longer, by the times in the
records or in those that ``--times`` names, is left for the next. All choices are made on training rows. The refined
models were designed on the sets marked "d"; those marked "j" judge.

Peers: matching pursuit as it is ("kmp"), with a width for each input ("weighted"), that with width, ridge and number
of terms cross-validated ("widths"), a sparse Gaussian process with a width for each input and moved inducing points
("sgpr": 100 steps of L-BFGS from k-means and from pursuit; the one with the lower TEST error counts, in its favour;
"by bound" is the error of the one with the higher bound), a network of k hidden units (L-BFGS, tuned penalty), rows
drawn at random as Nystroem features with a tuned ridge ("nystroem"), gradient boosting (default and tuned), support
vectors (tuned). The error is 1 - R² or the share of wrong classes; bytes are those of the numbers that prediction
needs. Peers that are tuned use three folds up to 1,000 rows and one quarter of the rows beyond. The widths of the
inputs are learned once for all models of a split that use them; that time counts for each.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedShuffleSplit
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from _common import RECORDS, load, made_with, parser
from kernelpursuit import (
    FeatureWidths,
    KMPClassifier,
    KMPRegressor,
    PursuitSearchCV,
    RefinedKMPClassifier,
    RefinedKMPRegressor,
)

DESIGN = {"abalone", "cpusmall", "space_ga", "housing", "mg"} | {
    "keel_phoneme", "keel_spambase", "keel_segment", "keel_vowel", "keel_satimage",
    "ida_banana", "ida_german", "ida_splice", "ida_waveform",
}  # fmt: skip
REGRESSION = (
    "abalone", "cpusmall", "space_ga", "housing", "mg", "cal_housing", "bodyfat", "mpg", "pyrim", "triazines",
)  # fmt: skip
CLASSES = (
    "keel_phoneme", "keel_spambase", "keel_segment", "keel_vowel", "ida_banana", "ida_german", "keel_satimage",
    "keel_letter", "usps", "ida_image", "ida_splice", "ida_waveform", "ionosphere",
)  # fmt: skip
WITH_TERMS = ("refined", "kmp", "weighted", "widths", "sgpr", "mlp", "nystroem")
WITHOUT = ("boosting", "boosting tuned", "svm")
TEST_ROWS, PREDICTED_ROWS = 5000, 10_000
ON_WIDTHS = ("weighted", "widths")  # on inputs that `FeatureWidths` has scaled
UNKNOWN = 10.0  # seconds that a task may take of which nothing is known
THREE_FOLDS = 1000  # rows up to which peers are tuned by three folds


Task = dict[str, Any]
Found = dict[tuple[str, str, int], dict[int, dict[str, Any]]]  # set, method, terms; then the seed of the split


def data_of(name: str, folder: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets."""
    found = load(name, folder)
    return np.asarray(found.data, dtype=np.float64), np.asarray(found.target)


def split(name: str, seed: int, rows: int, folder: str | None) -> tuple[np.ndarray, ...]:
    """Training and test rows."""
    X, y = data_of(name, folder)
    order = np.random.default_rng([seed, len(X)]).permutation(len(X))
    size = min(rows, 3 * len(X) // 4)
    train, test = order[:size], order[size : size + TEST_ROWS]
    return X[train], y[train], X[test], y[test]


def sgpr(X: np.ndarray, y: np.ndarray, Z: np.ndarray, steps: int = 100) -> Any:
    """Titsias' collapsed bound, maximised over widths, variances and inducing points: its prediction, and the bound."""
    import torch

    X, Z, y = (torch.as_tensor(part, dtype=torch.float64) for part in (X, Z, y))
    d, n, k = X.shape[1], len(X), len(Z)
    scales = torch.full((d,), 0.5 * np.log(d), dtype=torch.float64)
    theta = [scales, torch.zeros(1, dtype=torch.float64), torch.full((1,), np.log(0.3), dtype=torch.float64), Z.clone()]
    theta = [part.requires_grad_() for part in theta]

    def kernel(a: Any, b: Any) -> Any:
        a, b = a / theta[0].exp(), b / theta[0].exp()
        squared = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T
        return theta[1].exp() * torch.exp(-0.5 * squared.clamp(min=0))

    def parts() -> Any:
        K = kernel(theta[3], theta[3]) + 1e-6 * theta[1].exp() * torch.eye(k, dtype=torch.float64)
        L = torch.linalg.cholesky(K)
        A = torch.linalg.solve_triangular(L, kernel(theta[3], X), upper=False)
        v = theta[2].exp().clamp(min=1e-6)
        B = torch.linalg.cholesky(torch.eye(k, dtype=torch.float64) + A @ A.T / v)
        c = torch.linalg.solve_triangular(B, (A @ y)[:, None], upper=False) / v
        return L, A, B, c, v

    def loss() -> Any:
        _, A, B, c, v = parts()
        fit = (y @ y) / v - (c * c).sum()
        trace = (n * theta[1].exp() - (A * A).sum()) / v
        return 0.5 * (n * v.log() + 2 * B.diagonal().log().sum() + fit + trace).sum()

    optimiser = torch.optim.LBFGS(theta, max_iter=steps, line_search_fn="strong_wolfe", history_size=20)

    def closure() -> Any:
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
    with torch.no_grad():
        bound = -float(loss())
        L, _, B, c, _ = parts()
        back = torch.linalg.solve_triangular(B.T, c, upper=True)
        beta = torch.linalg.solve_triangular(L.T, back, upper=True)

    def predict(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return (kernel(torch.as_tensor(rows, dtype=torch.float64), theta[3]) @ beta)[:, 0].numpy()

    return predict, bound


class SGPR:
    """The same for data in any units, from one of two starts."""

    def __init__(self, k: int, start: str):
        self.k, self.start = k, start

    def fit(self, X: np.ndarray, y: np.ndarray) -> SGPR:
        """Scale the columns, place the inducing points, climb."""
        self.scaler = StandardScaler().fit(X)
        inside, k = self.scaler.transform(X), min(self.k, len(X))
        self.mean, self.spread = y.mean(), y.std()
        if self.start == "kmeans":
            Z = KMeans(k, n_init=1, random_state=0).fit(inside).cluster_centers_
        else:
            Z = KMPRegressor(n_atoms=k).fit(inside, y).support_vectors_
        self.predict_inside, self.bound = sgpr(inside, (y - self.mean) / self.spread, Z)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Mean at new rows."""
        return self.mean + self.spread * self.predict_inside(self.scaler.transform(X))


def models_of(method: str, k: int, classes: bool, d: int, seed: int, rows: int) -> list[Any]:
    """Models to fit; of several the one with the lower test error counts."""
    one_part = StratifiedShuffleSplit if classes else ShuffleSplit
    cv = 3 if rows <= THREE_FOLDS else one_part(1, test_size=0.25, random_state=seed)
    if method == "refined":
        return [(RefinedKMPClassifier if classes else RefinedKMPRegressor)(n_atoms=k, random_state=seed)]
    if method == "kmp":
        return [make_pipeline(StandardScaler(), (KMPClassifier if classes else KMPRegressor)(n_atoms=k))]
    if method == "weighted":
        return [(KMPClassifier if classes else KMPRegressor)(n_atoms=k)]
    if method == "nystroem":
        ridge = (RidgeClassifierCV if classes else RidgeCV)(np.logspace(-6, 2, 9))
        features = Nystroem(gamma=1 / d, n_components=k, random_state=seed)
        pipeline = make_pipeline(StandardScaler(), features, ridge)
        return [GridSearchCV(pipeline, {"nystroem__gamma": [0.25 / d, 1.0 / d, 4.0 / d]}, cv=cv)]
    if method == "widths":
        estimator = KMPClassifier() if classes else KMPRegressor()
        return [PursuitSearchCV(estimator, max_atoms=k, gammas=[0.25, 1.0, 4.0], cv=3)]
    if method == "sgpr":
        return [SGPR(k, start) for start in ("kmeans", "pursuit")]
    if method == "mlp":
        common = {"hidden_layer_sizes": (k,), "solver": "lbfgs", "max_iter": 1000, "random_state": seed}
        if classes:
            search = GridSearchCV(MLPClassifier(**common), {"alpha": [1e-4, 1e-2, 1.0]}, cv=cv)
        else:
            scaled = TransformedTargetRegressor(MLPRegressor(**common), transformer=StandardScaler())
            search = GridSearchCV(scaled, {"regressor__alpha": [1e-4, 1e-2, 1.0]}, cv=cv)
        return [make_pipeline(StandardScaler(), search)]
    boosting = (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=seed)
    if method == "boosting":
        return [boosting]
    if method == "boosting tuned":
        grid = {"learning_rate": [0.05, 0.15], "max_leaf_nodes": [7, 31], "max_iter": [100, 400]}
        return [GridSearchCV(boosting, grid, cv=cv)]
    grid = {"C": [1.0, 10.0, 100.0], "gamma": [0.25 / d, 1.0 / d, 4.0 / d]}
    machine: Any = SVC()
    if not classes:  # penalty and tube are in the units of the targets
        grid = {f"regressor__{name}": tried for name, tried in grid.items()}
        machine = TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    return [make_pipeline(StandardScaler(), GridSearchCV(machine, grid, cv=cv))]


def size_of(model: Any, method: str, k: int, d: int, outputs: int) -> tuple[int, int]:
    """Terms and bytes of a fitted model."""
    last = model[-1] if hasattr(model, "steps") else model
    last = getattr(last, "best_estimator_", last)
    last = getattr(last, "regressor_", last)
    if method == "refined":
        terms = len(last.widths_)
        return terms, 8 * (terms * (d + 1 + outputs) + d + outputs)
    if method == "nystroem":
        return min(k, len(last[1].components_)), 8 * (k * (d + k + outputs) + 2 * d + outputs)
    if method in ("kmp", "weighted", "widths", "svm"):
        terms = len(last.support_)
        return terms, 8 * (terms * (d + outputs) + 2 * d + outputs)
    if method == "sgpr":
        return k, 8 * (k * (d + 1) + 3 * d)
    if method == "mlp":
        return k, 8 * sum(part.size for part in (*last.coefs_, *last.intercepts_))
    trees = [tree for stage in last._predictors for tree in stage]
    return sum(tree.get_n_leaf_nodes() for tree in trees), len(pickle.dumps(last))


def timed(action: Callable[[], Any]) -> tuple[Any, np.ndarray]:
    """What a call returns, and its seconds: by the clock and of the processor."""
    start, busy = perf_counter(), process_time()
    result = action()
    return result, np.array([perf_counter() - start, process_time() - busy])


def measure(task: Task, data: tuple[np.ndarray, ...], widths: tuple[Any, np.ndarray] | None) -> dict[str, Any]:
    """Error, size and times of one method on one split; scaled inputs come with the time that their widths took."""
    name, method, k, seed = task["set"], task["method"], task["terms"], task["seed"]
    X, y, X_test, y_test = data
    classes = name in CLASSES
    scale, took = widths or (None, np.zeros(2))
    inputs = X if scale is None else scale.transform(X)
    many = X_test[np.arange(PREDICTED_ROWS) % len(X_test)]
    found: list[dict[str, Any]] = []
    for model in models_of(method, k, classes, X.shape[1], seed, len(X)):
        try:
            _, seconds = timed(partial(model.fit, inputs, y))
        except Exception as error:  # a peer that fails on a set is a result
            found.append({"error": None, "failed": repr(error)[:200]})
            continue
        took = took + seconds
        whole = model if scale is None else make_pipeline(scale, model)
        _, predict = timed(partial(whole.predict, many))
        values = whole.predict(X_test)
        wrong = np.mean(values != y_test) if classes else np.mean((values - y_test) ** 2) / np.var(y_test)
        terms, size = size_of(model, method, k, X.shape[1], len(np.unique(y)) if classes else 1)
        found.append({"error": float(wrong), "kept": terms, "bytes": size, "predict": float(predict[0])})
        if method == "sgpr":
            found[-1]["bound"] = model.bound
    best = min(found, key=lambda one: np.inf if one["error"] is None else one["error"])
    if method == "sgpr":  # what one gets who has no test rows to choose a start by
        best |= {"by bound": max(found, key=lambda one: one.get("bound", -np.inf))["error"]}
    fit, processor = took.tolist()
    return best | {"fit": fit, "processor": processor, "moved": getattr(model, "moved_", None)}


def run(group: list[Task], folder: str | None) -> list[tuple[Task, dict[str, Any]]]:
    """Tasks of one split with their records."""
    warnings.simplefilter("ignore")
    first = group[0]
    X, y, X_test, y_test = split(first["set"], first["seed"], first["rows"], folder)
    if first["set"] not in CLASSES:
        y, y_test = y.astype(np.float64), y_test.astype(np.float64)
    if first["method"] == "sgpr":
        import torch  # noqa: F401  # not on its clock
    widths = (
        timed(lambda: FeatureWidths(random_state=first["seed"]).fit(X, y)) if first["method"] in ON_WIDTHS else None
    )
    return [(task, measure(task, (X, y, X_test, y_test), widths)) for task in group]


def groups_of(tasks: list[Task]) -> list[list[Task]]:
    """Tasks one by one; those that share the widths of the inputs together."""
    found: dict[Any, list[Task]] = defaultdict(list)
    for number, task in enumerate(tasks):
        found[(task["set"], task["seed"]) if task["method"] in ON_WIDTHS else number].append(task)
    return list(found.values())


def expected(task: Task, found: Found) -> float:
    """Seconds that a task may take: what it took before, or what the nearest number of terms took, in proportion."""
    took = {key[2]: mean(records, "fit") for key, records in found.items() if key[:2] == (task["set"], task["method"])}
    took = {terms: seconds for terms, seconds in took.items() if seconds > 0}
    if not took:
        return UNKNOWN
    nearest = min(took, key=lambda terms: abs(terms - task["terms"]))
    return took[nearest] * max(1.0, task["terms"] / max(nearest, 1)) ** 1.5


def in_time(groups: list[list[Task]], found: Found, seconds: float) -> Iterator[list[Task]]:
    """The longest first; what would not end in time is left out. Further splits of what takes longest come last."""
    end = perf_counter() + seconds
    long = {id(group): max(expected(task, found) for task in group) for group in groups}
    late = {id(group): group[0]["method"] == "boosting tuned" and group[0]["seed"] >= 2 for group in groups}
    for group in sorted(groups, key=lambda group: (late[id(group)], -long[id(group)])):
        if perf_counter() + long[id(group)] < end:
            yield group


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Records by their task."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return {json.dumps(line["task"], sort_keys=True): line["record"] for line in lines if "task" in line}


def by_model(records: dict[str, dict[str, Any]]) -> Found:
    """Records that have an error, by what they are of."""
    found: Found = defaultdict(dict)
    for key, record in records.items():
        task = json.loads(key)
        if record.get("error") is not None:
            found[task["set"], task["method"], task["terms"]][task["seed"]] = record
    return found


def mean(records: dict[int, dict[str, Any]], what: str = "error") -> float:
    """Mean over the splits; NaN where it was not measured."""
    return float(np.mean([record.get(what, np.nan) for record in records.values()]))


def summary(records: dict[str, dict[str, Any]]) -> None:
    """Mean errors, and what the claims come to."""
    found = by_model(records)
    for group, names in (("regression, 1 - R2", REGRESSION), ("classes, error", CLASSES)):
        for k in sorted({key[2] for key in found if key[0] in names and key[2]}):
            print(f"\n{group}, {k} terms: mean error (splits; fit seconds)")
            for name in names:
                cells = []
                for method in (*WITH_TERMS, *WITHOUT):
                    here = found.get((name, method, k if method in WITH_TERMS else 0))
                    if here:
                        cells.append(f"{method} {mean(here):.4f} ({len(here)}; {mean(here, 'fit'):.1f})")
                if cells:
                    print(f"  {name:14}{' d' if name in DESIGN else ' j'}  " + "  ".join(cells))
            for peer in (*WITH_TERMS[1:], *WITHOUT):
                compare(found, names, k, peer)
        against_more_terms(found, names)


def shared(found: Found, ours: Any, theirs: Any) -> tuple[dict[int, Any], dict[int, Any]]:
    """Records of two models on the splits that both were measured on."""
    seeds = found.get(ours, {}).keys() & found.get(theirs, {}).keys()
    return tuple({seed: found[key][seed] for seed in seeds} for key in (ours, theirs))  # type: ignore[return-value]


def compare(found: Found, names: tuple[str, ...], k: int, peer: str) -> None:
    """On how many sets the refined model is ahead of a peer, splits that both have."""
    pairs = []
    for name in names:
        ours, theirs = shared(found, (name, "refined", k), (name, peer, k if peer in WITH_TERMS else 0))
        if ours:
            spread = [np.std([one["error"] for one in some.values()]) for some in (ours, theirs)]
            times = mean(ours, "fit") / mean(theirs, "fit")
            pairs.append((mean(ours) / max(mean(theirs), 1e-12), name, times, spread[0] / max(spread[1], 1e-12)))
    if pairs:
        worst = max(pairs)
        print(
            f"  refined against {peer}: lower on {sum(p[0] < 1 for p in pairs)} of {len(pairs)} sets, worst ratio "
            f"{worst[0]:.3f} ({worst[1]}), median ratio {np.median([p[0] for p in pairs]):.3f}, fit time "
            f"{np.median([p[2] for p in pairs]):.2f} of its, scatter {np.median([p[3] for p in pairs]):.2f} of its"
        )


def against_more_terms(found: Found, names: tuple[str, ...]) -> None:
    """Refined with 30 terms beside the unrefined best with 100."""
    pairs = []
    for name in names:
        ours, theirs = shared(found, (name, "refined", 30), (name, "widths", 100))
        if ours:
            pairs.append((mean(ours) / mean(theirs), mean(ours, "fit") / mean(theirs, "fit")))
    if pairs:
        print(
            f"\nrefined with 30 terms against widths with 100: no higher on {sum(p[0] <= 1 for p in pairs)} of "
            f"{len(pairs)} sets, median ratio {np.median([p[0] for p in pairs]):.3f}, fit time "
            f"{np.median([p[1] for p in pairs]):.3f} of its"
        )


def main() -> None:
    """Measure what is missing, print what is there."""
    options = parser(__doc__, None)
    options.add_argument("--sets", nargs="+", default=[*REGRESSION, *CLASSES])
    options.add_argument("--methods", nargs="+", default=[*WITH_TERMS, *WITHOUT])
    options.add_argument("--terms", nargs="+", type=int, default=[10, 30, 100, 300])
    options.add_argument("--rows", type=int, default=3000, help="training rows at most")
    options.add_argument("--splits", type=int, default=5)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--seconds", type=float, default=np.inf, help="begin nothing that would end later")
    options.add_argument("--times", type=Path, help="records that tell how long tasks take; as a rule those there are")
    options.add_argument("--summary", action="store_true", help="measure nothing")
    arguments = options.parse_args()
    out = arguments.out or RECORDS / "accuracy_per_term.jsonl"
    kept = read(out)
    tasks = [
        {"set": name, "seed": seed, "method": method, "terms": k, "rows": arguments.rows}
        for seed in range(arguments.splits)
        for name in arguments.sets
        for method in arguments.methods
        for k in (arguments.terms if method in WITH_TERMS else [0])
        if method != "sgpr" or name not in CLASSES
    ]
    missing = [task for task in tasks if json.dumps(task, sort_keys=True) not in kept]
    if missing and not arguments.summary:
        out.parent.mkdir(parents=True, exist_ok=True)
        todo = in_time(groups_of(missing), by_model(read(arguments.times or out)), arguments.seconds)
        workers = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
        done = 0
        with out.open("a", encoding="utf-8") as file:
            if not kept:
                file.write(json.dumps({"made_with": made_with()}) + "\n")
            for records in workers(delayed(run)(group, arguments.data) for group in todo):
                for task, record in records:
                    file.write(json.dumps({"task": task, "record": record}) + "\n")
                file.flush()
                done += len(records)
                print(f"{done} of {len(missing)}", file=sys.stderr, flush=True)
        kept = read(out)
    wanted = {json.dumps(task, sort_keys=True) for task in tasks}
    summary({key: record for key, record in kept.items() if key in wanted})


if __name__ == "__main__":
    main()
