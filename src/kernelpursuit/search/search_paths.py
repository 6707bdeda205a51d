"""The paths of a search, one after the other, and what those of one width share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, repeat, takewhile
from typing import Any

import numpy as np

from kernelpursuit.fitting.callbacks import SearchTask, lines_wanted
from kernelpursuit.pursuit.lookahead import Foreseen
from kernelpursuit.search.foreseeing import FEW_FORESEEN, Foreseeing, without_ridge
from kernelpursuit.search.input_weights import weighed
from kernelpursuit.search.path_scores import quick
from kernelpursuit.search.score_table import Setting
from kernelpursuit.search.shared_matrix import kernel_matrix, search_kernel, values_of_matrix, values_when_asked
from kernelpursuit.search.side_by_side import Each, Ending, Hands
from kernelpursuit.search.split_kernel import FEW_ROWS

Group = tuple[bool, float | None, list[tuple[int, Setting]]]  # settings of one width, and whether inputs have weights
# Kernel values, what paths are foreseen from, and whether scores take columns of atoms alone.
Shared = tuple[Any, Any, bool]
Begin = Callable[[], Callable[[], Foreseen]]  # begins to foresee a path; what is returned waits for its atoms


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
    _on_all_rows: dict[int, Begin] = field(default_factory=dict)  # the last fit, by settings
    _best: tuple[int, Begin] | None = None  # setting, unless its last fit is begun
    _last_fits: dict[int, Callable[[], Foreseen]] = field(default_factory=dict)  # those begun

    def __call__(self, hands: Hands) -> Iterator[tuple | None]:
        """The paths, and None where another one must be done before the next is made.

        There is memory for what two widths share, besides that of the best one: so it is made for a width when the
        paths of the last but one are done. Of many rows that is made while the last path of a width is followed: two
        paths of two widths would read twice as much. The atoms of the last fit take longer than a path: they are looked
        for, with the best setting so far, before the last two paths are followed.
        """
        in_turn = groupby(enumerate(self.settings), key=lambda pair: (pair[1].learned, pair[1].gamma))
        groups: list[Group] = [(*key, list(same)) for key, same in in_turn]
        begun, paths_before = [hands.later(partial(self._prepared, groups[0], hands.each))], 0
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            shared: Shared = begun.pop()()
            paths = len(group[-1]) * len(self.folds)
            wait = paths - 1 if len(self.y) >= FEW_FORESEEN else 0
            for place, path in enumerate(chain(self._of_width(group, shared, hands), repeat(None))):
                if self.told.stopped or (path is None and (begun or following is None)):
                    break
                if following is None and place >= paths - 2 and hands.done() >= paths_before:
                    self._begin_last_fit()
                yield path
                if following is not None and not begun and place >= wait and hands.done() >= paths_before:
                    begun.append(hands.later(partial(self._prepared, following, hands.each)))
            if self.told.stopped:
                return
            paths_before += paths
            del shared
        self._begin_last_fit()

    def setting_done(self, place: int, best: bool) -> None:
        """All folds of a setting have their scores, and it is the best so far or not."""
        begin, any_may_be_taken = self._on_all_rows.pop(place, None), self.estimator.one_standard_error
        if not best and not any_may_be_taken:
            return
        if not any_may_be_taken:
            self._best, self._last_fits = None, {}
        if begin is None:
            return
        if any_may_be_taken or len(self.y) <= FEW_ROWS:  # what it needs takes much memory
            known = begin()()
            self._last_fits[place] = lambda: known
        else:
            self._best = place, begin
        if place == len(self.settings) - 1:
            self._begin_last_fit()

    def _begin_last_fit(self) -> None:
        """Begin to foresee the fit on all rows with the best setting so far, unless that is done."""
        if self._best is not None:
            (place, begin), self._best = self._best, None
            self._last_fits = {place: begin()}

    def foreseen(self) -> dict[int, Foreseen]:
        """Atoms of the fit on all rows with the settings that may be chosen, where they are known."""
        return {place: last_fit() for place, last_fit in self._last_fits.items()}

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
            self._on_all_rows.update((place, begin) for (place, _), known in zip(settings, plain, strict=True) if known)
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
