"""Fewer combinations of what is varied in a test."""

from itertools import combinations, product


def pairwise(*factors):
    """Combinations of values, one of each factor, in which any two values of two factors meet.

    What goes wrong does so for one value of a factor, or where two meet: with four factors or five of them a small part
    of all combinations sees it. They are chosen greedily, always the same.
    """
    factors = [list(factor) for factor in factors]
    cells = list(product(*(range(len(factor)) for factor in factors)))
    places: dict = {}
    covered = [
        sum(1 << places.setdefault((i, cell[i], j, cell[j]), len(places)) for i, j in combinations(range(len(cell)), 2))
        for cell in cells
    ]
    left, chosen = (1 << len(places)) - 1, []
    while left:
        best = max(range(len(cells)), key=lambda place: (left & covered[place]).bit_count())
        left &= ~covered[best]
        chosen.append(best)
    return [tuple(factor[i] for factor, i in zip(factors, cells[place], strict=True)) for place in sorted(chosen)]
