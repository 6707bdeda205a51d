"""The paths of a search, one after the other, and what those of one width share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, takewhile
from typing import Any

import numpy as np

from kernelpursuit.estimators._foreseeing import Foreseeing, without_ridge
from kernelpursuit.estimators._input_weights import weighed
from kernelpursuit.estimators._path_scores import quick
from kernelpursuit.estimators._score_table import Setting
from kernelpursuit.estimators._shared_matrix import kernel_matrix, search_kernel, values_of_matrix, values_when_asked
from kernelpursuit.estimators._side_by_side import Each, Ending, Hands
from kernelpursuit.estimators._tasks import SearchTask, lines_wanted

Group = tuple[bool, float | None, list[tuple[int, Setting]]]  # settings of one width, and whether inputs have weights
# Kernel values, what paths are foreseen from, and whether scores take columns of atoms alone.
Shared = tuple[Any, Any, bool]


@dataclass(eq=False)
class SearchPaths:
    """The paths of all settings and folds, in the order of the table of scores, as arguments of `path_scores`.

    Settings of one width follow each other. While threads follow the paths of one, they make what the next one needs.
    For processes what paths are foreseen from would be too large: that is done here, before they get the atoms.

    Parameters
    ----------
    estimator : KMPRegressorCV or the like
    model, metric, X, y, weights, settings, folds, scorer
        As in `cross_validate`.
    told : SearchTask
    ending : Ending
    learned : list
        Weights of the inputs in each fold, if any setting has these.
    foreseeing : Foreseeing or None
    """

    estimator: Any
    model: Callable
    metric: Callable
    X: Any
    y: np.ndarray
    weights: Any
    settings: list[Setting]
    folds: list[tuple[np.ndarray, np.ndarray]]
    scorer: Any
    told: SearchTask
    ending: Ending
    learned: list[Any]
    foreseeing: Foreseeing | None
    on_all_rows: dict[int, Callable] = field(default_factory=dict)  # by settings: begins to foresee the last fit
    last_width: bool = False  # whether its paths are under way

    def __call__(self, hands: Hands) -> Iterator[tuple | None]:
        """The paths, and None where all before must be done, so that a width has given its memory back."""
        in_turn = groupby(enumerate(self.settings), key=lambda pair: (pair[1].learned, pair[1].gamma))
        groups: list[Group] = [(*key, list(same)) for key, same in in_turn]
        begun = [hands.later(partial(self._prepared, groups[0], hands.each))]
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            if self.told.stopped:  # nothing is prepared for the next width
                return
            shared: Shared = begun.pop()()
            self.last_width = following is None
            if following is not None:
                begun.append(hands.later(partial(self._prepared, following, hands.each)))
            products = shared[1] is not None
            yield from self._of_width(group, shared, hands)
            del shared
            if products:
                yield None

    def _prepared(self, group: Group, each: Each) -> Shared:
        """What the folds of a width share: kernel values, and those split in parts where atoms are foreseen."""
        weighted, gamma, settings = group
        plain = [without_ridge(self.estimator, setting) for _, setting in settings]
        sees = self.foreseeing if any(plain) and not weighted else None
        alone = self.scorer is None and all(plain)
        if weighted:
            return None, None, alone
        if sees is not None and alone:
            values = values_when_asked(search_kernel(self.estimator, self.X, gamma), self.X)
            if values is not None:
                return None, sees.prepare(values, each), alone
        room = sees.room() if sees is not None and alone else None
        matrix = kernel_matrix(self.estimator, self.X, gamma, each, room)
        if sees is None or matrix is None:
            return matrix, None, alone
        return matrix, sees.prepare(values_of_matrix(matrix.T), each, matrix.T if alone else None), alone

    def _of_width(self, group: Group, shared: Shared, hands: Hands) -> Iterator[tuple]:
        estimator, (weighted, _, settings), (matrix, products, alone) = self.estimator, group, shared
        ahead: list[Any] = [None] * len(self.folds)
        plain = [without_ridge(estimator, setting) for _, setting in settings]
        if products is not None and self.foreseeing is not None:
            ahead, whole = self.foreseeing.ahead(products)
            begin = partial(hands.later, whole)
            self.on_all_rows.update((place, begin) for (place, _), known in zip(settings, plain, strict=True) if known)
            matrix = None if alone else matrix
        rows, kernel = (self.X, estimator.kernel) if matrix is None else (matrix, "precomputed")
        verbose = lines_wanted(estimator)
        for (place, setting), known in zip(settings, plain, strict=True):
            for fold, (train, test) in takewhile(lambda _: not self.told.stopped, enumerate(self.folds)):
                began = time.perf_counter()
                label = f"fold {fold + 1} of {len(self.folds)}, {setting}" if verbose else ""
                one = self.model(estimator.max_atoms, setting, max(0, verbose - 1)).set_params(kernel=kernel)
                one._for_scores, one._ending = self.scorer is None, self.ending
                heard = self.told.fold(place, fold)
                given = weighed(self.X, self.learned[fold]) if weighted else rows
                found = ahead[fold] if known else None
                if found is not None and estimator.n_jobs is not None:
                    found = found.scores(one) if quick(one, self.scorer, heard) else found.atoms()
                scored = self.scorer, self.metric, label, heard, found, began
                yield one, given, self.y, self.weights, train, test, *scored
