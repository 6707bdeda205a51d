"""Products of a kept float32 matrix with the vectors of a block: its rows in parts, the same for any threads."""

import numpy as np
import pytest

from kernelpursuit.dictionaries import dense, tiles
from kernelpursuit.pursuit.lookahead import LookAhead

rng = np.random.default_rng(0)


def product_with(threads, matrix, V, monkeypatch):
    monkeypatch.setattr(tiles, "usable_threads", lambda: threads)
    return dense.matrix_product(matrix, V)


@pytest.mark.parametrize("shape", [(2100, 2100), (8200, 600), (9, 5), (1, 7), (0, 3)])
@pytest.mark.parametrize("vectors", [1, 4, 24])
def test_products_are_those_of_the_definition_and_the_same_for_any_threads(shape, vectors, monkeypatch):
    matrix = rng.normal(size=shape).astype(np.float32)
    V = np.asfortranarray(rng.normal(size=(shape[1], vectors)).astype(np.float32))
    found = product_with(1, matrix, V, monkeypatch)
    for threads in (2, 3, 16):
        np.testing.assert_array_equal(product_with(threads, matrix, V, monkeypatch), found)
    assert found.dtype == np.float64 and found.flags.f_contiguous
    np.testing.assert_allclose(found, matrix.astype(np.float64) @ V.astype(np.float64), atol=2e-3)


def test_a_large_product_has_as_many_parts_as_eight_threads_can_share(monkeypatch):
    asked = []
    monkeypatch.setattr(dense, "in_threads", lambda task, items, parallel: asked.append((len(items), parallel)))
    for rows, columns in ((6291, 700), (8192, 512), (8193, 512), (300, 300)):
        dense.matrix_product(np.zeros((rows, columns), dtype=np.float32), np.zeros((columns, 8), dtype=np.float32))
    assert asked == [(8, True), (8, False), (16, True), (1, False)]


def test_first_blocks_are_longer_the_less_is_asked_of_an_atom():
    lengths = {weakness: LookAhead(64, weakness)._size for weakness in (1.0, 0.5, 0.25, 0.2, 0.1, 0.05, 0.001)}
    assert lengths == {1.0: 8, 0.5: 8, 0.25: 8, 0.2: 16, 0.1: 24, 0.05: 40, 0.001: 64}
    assert LookAhead(5, 0.01)._size == 5
