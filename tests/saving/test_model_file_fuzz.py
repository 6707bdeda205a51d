"""Two thousand mutated model files: each is refused in one line or gives a model, none crashes or takes much memory."""

import json
import resource

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelpursuit import KMPClassifier, KMPRegressor, ModelFileError, RefinedKMPRegressor, load, save

pytest.importorskip("safetensors")
pytest.importorskip("skops")

X = np.random.default_rng(0).normal(size=(50, 2))
Y = np.sin(X[:, 0])
ODD = [None, -1, 0, 3, 10**12, 1e308, "x", "", [], {}, {"float": "nan"}, {"array": [0, "C"]}, {"list": []}, True]
MEMORY = 300 * 1024  # KiB more than before


def damaged(content, rng):
    """A file with bytes changed, cut off, repeated or taken out."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        i, j = sorted(rng.integers(0, len(data) + 1, size=2))
        how = rng.integers(6)
        if how == 0 and data:
            data[min(i, len(data) - 1)] ^= 1 << int(rng.integers(8))
        elif how == 1:
            del data[i : i + int(rng.integers(1, 9))]
        elif how == 2:
            data[i:i] = rng.bytes(int(rng.integers(1, 9)))
        elif how == 3:
            del data[j:]
        elif how == 4:
            data[i:j] = data[i:j] * 2
        else:
            data[: len(data[:8])] = int(rng.integers(0, 2**62)).to_bytes(8, "little")[: len(data[:8])]
    return bytes(data)


def places(node, path=()):
    yield path
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


def forged(content, rng):
    """A file with another value somewhere in its header or arrays, and a checksum that is right."""
    from safetensors.numpy import load as unpack
    from safetensors.numpy import save as pack

    from kernelpursuit.saving import tensors

    arrays = unpack(content)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][tensors.FORMAT])
    for _ in range(rng.integers(1, 4)):
        if rng.random() < 0.25:
            name = str(rng.integers(len(arrays)))
            value = np.atleast_1d(arrays[name])
            arrays[name] = [value[:-1], value.astype(np.int8), value.reshape(-1), np.zeros((0, 2)), value * np.nan][
                rng.integers(5)
            ]
            continue
        chosen = list(places(header))
        path = chosen[rng.integers(1, len(chosen))]
        node = header
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = ODD[rng.integers(len(ODD))] if rng.random() < 0.8 else json.loads(json.dumps(header["model"]))
        if "model" not in header:
            break
    header["sha256"] = tensors.digest(header.get("model"), arrays)
    return pack({k: np.ascontiguousarray(v) for k, v in arrays.items()}, metadata={tensors.FORMAT: json.dumps(header)})


def outcome(file):
    """ "refused", or what the model that was read does."""
    try:
        model = load(file)
    except ModelFileError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
        return "refused"
    try:
        model.predict(X)
    except Exception as error:
        return type(error).__name__
    return "predicts"


def largest_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


MODELS = {
    "kmp": lambda: KMPRegressor(n_atoms=4).fit(X, Y),
    "classes": lambda: KMPClassifier(n_atoms=4).fit(X, np.where(Y > 0, "a", "b")),
    "refined": lambda: RefinedKMPRegressor(n_atoms=3, random_state=0).fit(X, Y),
    "pipeline": lambda: make_pipeline(StandardScaler(), KMPRegressor(n_atoms=4)).fit(X, Y),
}
CASES = [("kmp", damaged, 400), ("classes", damaged, 400), ("refined", damaged, 200), ("pipeline", damaged, 200)]
CASES += [("kmp", forged, 300), ("classes", forged, 300), ("refined", forged, 200)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "mutated", "count"), CASES)
def test_mutated_files(name, mutated, count, tmp_path):
    file = tmp_path / "model"
    save(MODELS[name](), file)
    content, expected = file.read_bytes(), load(file).predict(X)
    rng = np.random.default_rng(0)
    before, outcomes = largest_memory(), {}
    for _ in range(count):
        changed = mutated(content, rng)
        file.write_bytes(changed)
        found = outcome(file)
        outcomes[found] = outcomes.get(found, 0) + 1
        if mutated is damaged and found != "refused":  # nothing that counts was changed
            np.testing.assert_array_equal(load(file).predict(X), expected)
    assert largest_memory() - before < MEMORY
    assert outcomes["refused"] > count / 4
    assert sum(outcomes.values()) == count
