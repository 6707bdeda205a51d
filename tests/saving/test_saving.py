"""Model files: what is written comes back to the last bit, and nothing else is read."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from kernelpursuit import ConformalRegressor, KMPClassifier, KMPRegressor, ModelFileError, load, losses, save
from kernelpursuit.parameters import columns
from tests import registry

pytest.importorskip("safetensors")
pytest.importorskip("skops")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
CLASSES = np.array(["low", "middle", "high"])[np.searchsorted(np.quantile(Y, [0.3, 0.7]), Y)]
KEPT = Path(__file__).parent / "model_files"
OUTPUTS = ("predict", "predict_proba", "decision_function", "score_samples", "transform", "predict_interval")


def fitted(estimator):
    """The estimator, in a small setting if it is one that takes long, fitted to a few rows."""
    estimator = registry.smaller(estimator)
    data = X @ X.T if registry.is_precomputed(estimator) else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(data, registry.targets(estimator, X, Y)), data


def assert_same_outputs(model, again, data):
    compared = 0
    for name in OUTPUTS:
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(model, name)(data), getattr(again, name)(data), strict=True)
            compared += 1
    assert compared


@pytest.mark.parametrize(
    "estimator", [*registry.DEFAULTS, *registry.SETTINGS, registry.FISHER_SEARCH], ids=registry.label
)
def test_every_estimator_comes_back_to_the_last_bit(estimator, tmp_path):
    model, data = fitted(estimator)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again) is type(model)
    assert str(again.get_params()) == str(model.get_params())
    assert_same_outputs(model, again, data)
    if hasattr(model, "path_"):
        assert repr(again.path_) == repr(model.path_)
    if hasattr(model, "truncate"):
        np.testing.assert_array_equal(model.truncate(1).predict(data), again.truncate(1).predict(data))
    save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes() or not is_tensors(tmp_path / "model")


def is_tensors(path):
    return not path.read_bytes().startswith(b"PK")


def pipeline():
    return make_pipeline(StandardScaler(), KMPClassifier(n_atoms=5)).fit(X, CLASSES)


def test_what_a_fit_may_hold_comes_back(tmp_path):
    """Sparse centres, several kernels, names of inputs, strings as objects, float32, Fortran order, a loss of many."""
    pd = pytest.importorskip("pandas")
    cases = [
        (KMPRegressor(n_atoms=4), sparse.csr_array(np.where(X > 0, X, 0)), Y),
        (KMPRegressor(n_atoms=6, kernel=["rbf", ("poly", {"degree": 2})]), X, Y),
        (KMPClassifier(n_atoms=4), pd.DataFrame(X, columns=["a", "b", "c"]), CLASSES.astype(object)),
        (KMPClassifier(n_atoms=4, loss="log_loss"), X.astype(np.float32), CLASSES),
        (KMPRegressor(n_atoms=4), np.asfortranarray(X), np.stack([Y, X[:, 2]], axis=1)),
    ]
    for model, data, y in cases:
        save(model.fit(data, y), tmp_path / "model")
        assert_same_outputs(model, load(tmp_path / "model"), data)
        assert list(getattr(load(tmp_path / "model"), "feature_names_in_", [])) == list(
            getattr(model, "feature_names_in_", [])
        )


def test_tensors_are_saved_as_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    with config_context(array_api_dispatch=True):
        model = KMPRegressor(n_atoms=5).fit(torch.asarray(X), torch.asarray(Y))
        expected = model.predict(torch.asarray(X)).numpy()
    save(model, tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict(X), expected, rtol=1e-10)


def test_an_unfitted_model_is_a_model(tmp_path):
    save(KMPRegressor(n_atoms=7), tmp_path / "model")
    assert load(tmp_path / "model").n_atoms == 7


class OwnLoss(losses.SquaredError):
    """The squared error under another name."""


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (KMPRegressor(n_atoms=3, kernel=lambda A, B: A @ B.T), "kernel is a function"),
        (KMPRegressor(n_atoms=3, kernel=["rbf", columns(np.sin)]), "kernel.*is a function"),
        (KMPRegressor(n_atoms=3, loss=OwnLoss()), "loss of your own"),
        (KMPRegressor(n_atoms=3, random_state=np.random.RandomState(0)), "random_state is a generator"),
        (make_pipeline(StandardScaler(), KMPRegressor(n_atoms=3, random_state=np.random.RandomState(0))), "generator"),
        (make_pipeline(FunctionTransformer(json.dumps), KMPRegressor(n_atoms=3)), "json.dumps"),
    ],
    ids=["kernel", "functions", "loss", "random_state", "random_state inside", "function inside"],
)
def test_what_only_code_could_bring_back_is_refused(model, words, tmp_path):
    (tmp_path / "model").write_text("old")
    with pytest.raises(TypeError, match=words):
        save(model, tmp_path / "model")
    assert (tmp_path / "model").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


def test_an_interval_around_a_model_of_scikit_learn(tmp_path):
    model = ConformalRegressor(LinearRegression(), coverage=0.7).fit(X, Y)
    save(model, tmp_path / "model")
    assert_same_outputs(model, load(tmp_path / "model"), X)


def forged(tree=None, version=2, more=None, **arrays):
    """A file with a right checksum, whatever it says."""
    from safetensors.numpy import save as pack

    from kernelpursuit.saving import tensors

    header = {"version": version, "model": tree, "sha256": tensors.digest(tree, arrays)} | (more or {})
    return pack(arrays, metadata={tensors.FORMAT: json.dumps(header)})


def refusal(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        load(tmp_path / "model")
    message = str(caught.value)
    assert str(tmp_path) in message and "\n" not in message and len(message) < 500
    return message


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path):
    from safetensors.numpy import save as pack

    whole = saved(KMPRegressor(n_atoms=3).fit(X, Y), tmp_path)
    long_header, cut_header = (200_000_000).to_bytes(8, "little") + bytes(200_000_001), (1 << 30).to_bytes(8, "little")
    for content in (b"", b"a,b\n1,2\n", whole[:-1], whole[:20], long_header, cut_header + b"{"):
        assert "not a kernelpursuit model file, or a damaged one" in refusal(content, tmp_path)
    assert "not of a kernelpursuit model" in refusal(pack({"weights": X}), tmp_path)
    assert "newer kernelpursuit" in refusal(forged(version=3), tmp_path)
    assert "version" in refusal(forged(version="1"), tmp_path)
    assert "not an estimator" in refusal(forged(5), tmp_path)
    assert "holds more beside the model" in refusal(forged(5, more={"more": 1}), tmp_path)
    assert "damaged" in refusal(whole[:-1] + bytes([whole[-1] ^ 1]), tmp_path)
    with pytest.raises(ModelFileError, match="No such file"):
        load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="directory"):
        load(tmp_path)


def saved(model, tmp_path):
    save(model, tmp_path / "saved")
    return (tmp_path / "saved").read_bytes()


@pytest.mark.parametrize(
    "tree",
    [
        {"object": ["os.system", {}]},
        {"object": ["TableModel", {}]},
        {"object": ["KMPRegressor", {"params": {"dict": [["n_atoms", 3]]}, "fitted": {"dict": [["predict", 1]]}}]},
        {"object": ["KMPRegressor", {"params": {"dict": [["nothing", 3]]}, "fitted": {"dict": []}}]},
        {"object": ["KMPRegressor", {"params": {"dict": [["n_atoms", {"same": 0}]]}, "fitted": {"dict": []}}]},
        {"object": ["Expansion", {"centers": {"array": [0, "C"]}, "coef": {"array": [0, "C"]}}]},
        {"strings": ["<U900000000", [1], ["a"]]},
        {"array": [-1, "C"]},
        {"call": ["os", "system"]},
        [1, 2],
        json.loads("[" * 900 + "]" * 900),
    ],
    ids=lambda tree: str(tree)[:40],
)
def test_a_forged_header_is_refused(tree, tmp_path):
    refusal(forged(tree, **{"0": X}), tmp_path)


def test_an_archive_that_is_no_model_is_refused_in_one_line(tmp_path):
    import skops.io

    skops.io.dump(StandardScaler().fit(X), tmp_path / "other")
    assert "not one that kernelpursuit.save wrote" in refusal((tmp_path / "other").read_bytes(), tmp_path)
    content = {"format": "kernelpursuit", "version": 9, "made_with": {}, "model": 1}
    skops.io.dump(content, tmp_path / "newer")
    assert "newer" in refusal((tmp_path / "newer").read_bytes(), tmp_path)
    skops.io.dump(content | {"version": 2, "model": FunctionTransformer(json.dumps)}, tmp_path / "code")
    assert "json" in refusal((tmp_path / "code").read_bytes(), tmp_path)
    skops.io.dump(content | {"version": 2, "model": pipeline(), "more": X}, tmp_path / "more")
    assert "holds more beside the model" in refusal((tmp_path / "more").read_bytes(), tmp_path)


@pytest.mark.parametrize("path", sorted(KEPT.glob("*")), ids=lambda path: path.name)
def test_files_of_every_version_are_read(path):
    """Written by ``tests/saving/model_files.py`` when the version was new; they stay as they are."""
    from tests.saving import model_files

    warned = warnings.catch_warnings(record=True)  # a pipeline says that its libraries were others
    with warned:
        warnings.simplefilter("always")
        model = load(path)
    np.testing.assert_allclose(model_files.output(model), np.load(KEPT.parent / f"model_outputs/{path.name}.npy"))


def test_there_is_a_file_of_every_version():
    from kernelpursuit.saving.tensors import OLDEST, VERSION

    for version in range(OLDEST, VERSION + 1):
        assert len(list(KEPT.glob(f"v{version}-*"))) >= 3
