"""Kernel matching pursuit for ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kernelpursuit.arrays import Array, on_host, to_host
from kernelpursuit.criteria.gradient import Gradient
from kernelpursuit.criteria.squares import Squares
from kernelpursuit.estimators.regression import cast_targets, scale_targets
from kernelpursuit.fitting.atom_family import AtomFamily, atoms_of
from kernelpursuit.fitting.descriptions import described
from kernelpursuit.fitting.duplicates import FOR_A_CHOICE, FOR_A_PROMISE, warn_of_duplicates
from kernelpursuit.fitting.groups import (
    PAIRWISE,
    certified_order,
    check_certifiable,
    check_pairs,
    split_groups,
    translated,
)
from kernelpursuit.fitting.model import Fitted, PursuitModel
from kernelpursuit.fitting.orthogonal import OrthogonalFit, has_evidence_ridge, rows_counted, with_evidence_ridge
from kernelpursuit.fitting.parameters import RankingParameters
from kernelpursuit.fitting.pipeline import Settings, fits, run
from kernelpursuit.fitting.placement import beside, host_dtype, labels_on_host
from kernelpursuit.fitting.rules import (
    Rules,
    most_steps,
    no_rules,
    say_chosen,
    validation_rule,
    warn_if_constant,
    warn_if_cut,
)
from kernelpursuit.fitting.training import (
    TrainingData,
    check_centers,
    check_training,
    fewer_centers,
    refuse_weights,
    training_data,
)
from kernelpursuit.fitting.units import in_units
from kernelpursuit.pursuit.loop import StopRule
from kernelpursuit.pursuit.stopping import gcv, leave_one_out, tolerance
from kernelpursuit.ranking import group_numbers, group_sizes, ndcg, wrong_pairs


@described
class KMPRanker(RankingParameters, PursuitModel):
    """Order the rows of a group by a kernel model on a few training points, chosen one at a time by matching pursuit.

    The model is ``f(x) = sum_j dual_coef_[j] * k(x, support_vectors_[j])``; the higher its value, the further in front
    a row comes. Rows come in groups: answers to one query, products of one page, judgements of one person. Only
    differences inside a group count. With the squared loss each step takes the atom that most lowers

        ``sum over groups of 1/m * sum over pairs (i, j) of ((y_i - y_j) - (f_i - f_j))**2``

    with m the rows of the group: this is least squares after the mean of each group is taken out of targets and atoms,
    and costs about twice as much as `KMPRegressor`.

    parameter_groups

    Parameters
    ----------
    n_atoms : int or "auto", default="auto"
        Number of steps. "auto" means ``stop="gcv"``, and ``stop="validation"`` for the logistic loss and for the basic
        variant. It takes 1,000 at most, and warns there. With `stop` given, a number is the most steps to take.
    gamma
    alpha : float or "auto", default="auto"
        Ridge penalty: ``alpha * cᵀ K c`` is added to the loss, with c the weights of the chosen atoms and K their
        kernel matrix (``alpha * c²`` for a column of `functions`, and for all atoms where the kernel matrix has
        eigenvalues below zero, as K is no penalty then). "auto" chooses the atoms without a ridge, and then the ridge
        under which the differences of y are most probable given these atoms. 0 is least squares. With all atoms the
        squared loss and a ridge are RankRLS.
    loss : {"squared", "logistic"}, default="squared"
        Loss of a pair. "squared" is that above. "logistic" is ``log(1 + exp(f_j - f_i))`` for each pair with y_i > y_j,
        which asks for the order alone and not for differences; an evaluation takes as long as there are pairs.
    kernels
    degree
    coef0
    kernel_params
    functions
    centers
    variant
    refit_every
    shrinkage
    tol
    stop : {"gcv", "leave_one_group_out", "validation", "certificate"}, callable or None, default=None
        Rule that chooses the number of steps. "gcv" is generalised cross-validation that charges two degrees of freedom
        for an atom, one of them for having searched for it, and one for the level of each group. "leave_one_group_out"
        is the exact error in groups that had no part in the weights; it does not know that the atoms were chosen with
        them. "validation" holds groups out (rows, if there is a single group) and judges by the loss that is fitted.
        "certificate" fits the model to some groups and leaves it at that; the others give a limit of the mean share of
        wrongly ordered pairs, `bounds.loss_bound`, that holds for all numbers of atoms at once with probability 95 %.
        It is ``path_.values("bound")[-1]``. Or write a rule of your own, ``stop(path) -> Stop | None``.
    validation_fraction : float, default=0.2
        Share of the groups that ``stop="validation"`` and ``stop="certificate"`` hold out. After "validation" the final
        model is fitted to all groups.
    patience
    candidates
    weakness
    memory
    random_state : int, RandomState or None, default=None
        Seed for `centers`, `candidates` and the groups held out.
    verbose

    Attributes
    ----------
    chosen_support_
    support_vectors_
    support_kernels_
    gamma_
    alpha_
    dual_coef_ : ndarray of shape (k,)
        Weights of the atoms.
    intercept_ : float
        Always 0: a constant changes no order.
    path_
    n_features_in_
    feature_names_in_

    Notes
    -----
    scikit-learn has no contract for ranking, so this follows LightGBM: `group` holds the sizes of groups of consecutive
    rows, and the default measure is NDCG with gains ``2**y - 1``. A label for each row, as XGBoost's ``qid``, is turned
    into sizes by `ranking.group_sizes`. `group` is optional in `fit` and `score`: without it all rows are one group. It
    has no entry for each row, so that scikit-learn's cross-validation cannot split it: give the rows of each fold,
    and their sizes, yourself. A `Pipeline` takes ``kmpranker__group`` in `fit`. Its `score` leaves `group` out, without
    a warning, unless metadata routing is on.

    ``path_.steps[i].leave_one_out`` is the left-out error of groups, nan where there is one group.

    References
    ----------
    Pahikkala, Tsivtsivadze, Airola, Järvinen and Boberg, An efficient algorithm for learning to rank from preference
    graphs, Machine Learning 75 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from kernelpursuit import KMPRanker
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + np.repeat([5.0, 1.0], 100)  # groups have levels of their own
    >>> model = KMPRanker(n_atoms=5).fit(X, y, group=[100, 100])
    >>> round(model.score(X, y, group=[100, 100]), 4)
    1.0
    """

    _one_target = True

    @fits
    def fit(self, X: Any, y: Any, sample_weight: Any = None, group: Any = None) -> KMPRanker:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Grades, or any numbers of which larger ones come first. Only their differences inside a group matter.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w rows: a pair counts ``w_i w_j / W``, W the sum of the weights of the group. A
            row of weight 0 is absent and cannot become an atom. The size of its group as the weight of each row makes
            all pairs count alike; divide these weights by their mean.
        group : array-like of shape (n_groups,), optional
            Sizes of the groups of consecutive rows, which sum to n_samples. None: all rows are one group.

        Returns
        -------
        self
        """
        X, y = check_training(self, X, y, sample_weight=sample_weight, y_numeric=True)
        numbers = group_numbers(None if group is None else labels_on_host(group), X.shape[0])
        # The logistic loss sees the order of the targets alone: its weights have no unit.
        targets, unit = scale_targets(cast_targets(on_host(y), host_dtype(X)), wanted=self.loss == "squared")
        data = training_data(X, targets, sample_weight)
        check_pairs(numbers[data.rows])
        fitted = self._choose_and_fit(data, numbers, unit)
        path = in_units(fitted.path, unit, score=unit * unit)
        self._set(fitted._replace(path=path, weights=fitted.weights.times(unit) if unit != 1 else fitted.weights))
        return self

    def predict(self, X: Any) -> Array:
        """Scores of X: within a group, rows of higher scores come first. Across groups they mean nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._raw(X, "predict")[:, 0]

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Scores of the models with 1, 2, ... steps, the kernel evaluated once for all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Yields
        ------
        ndarray of shape (n_samples,)
        """
        for values in self._staged_raw(X, "staged_predict"):
            yield values[:, 0]

    def score(self, X: Any, y: Any, sample_weight: Any = None, group: Any = None) -> float:
        """Mean NDCG over the groups, `ranking.ndcg` with all places and gains ``2**y - 1``: 1 for a perfect order.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Grades, at least 0.
        sample_weight : array-like of shape (n_samples,), optional
            A group counts by the mean weight of its rows.
        group : array-like of shape (n_groups,), optional
            Sizes of the groups of consecutive rows. None: all rows are one group.

        Returns
        -------
        float
        """
        sizes, weights = (None if given is None else labels_on_host(given) for given in (group, sample_weight))
        return ndcg(labels_on_host(y), on_host(self.predict(X)), sizes, sample_weight=weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _closed_form(self, loss: str) -> bool:
        """Whether the path knows the error of groups left out."""
        return loss == "squared" and self.variant != "basic"

    def _choose_and_fit(self, data: TrainingData, numbers: np.ndarray, unit: float) -> Fitted:
        """Fit with the stop rule that `n_atoms` and `stop` ask for; `numbers` are the groups of all rows given."""
        settings, stop = Settings.of(self), self.stop
        limit = None if self.n_atoms == "auto" else self.n_atoms
        if stop is None and limit is None:
            stop = "gcv" if self._closed_form(self.loss) else "validation"
        counts_weights = stop == "gcv" or has_evidence_ridge(self)
        groups = numbers[data.rows] if stop in ("leave_one_group_out", "validation", "certificate") else None
        if counts_weights or groups is not None:
            share = FOR_A_PROMISE if stop == "certificate" else FOR_A_CHOICE
            total = data.total if counts_weights else 0.0
            warn_of_duplicates(data.X, data.y, total, share=share, groups=groups)
        if stop == "certificate":
            fitted = self._fit_certified(data, numbers, settings, limit=limit, unit=unit)
            warn_if_constant(fitted.path)
            return fitted
        shared: dict[str, Any] = {"alpha": self._ridge(data, numbers, unit), "unit": unit}
        if isinstance(shared["alpha"], Fitted):
            return shared["alpha"]
        if stop == "validation":
            fitted = self._fit_validated(data, numbers, settings, limit=limit, **shared)
        else:
            rules = no_rules if stop is None else self._path_rule(stop, data, numbers)
            fitted = self._fit_once(data, numbers, settings, limit=limit, rules=rules, wanted=limit, **shared)
        if limit is None or fitted.path.reason != "exhausted":  # else a warning has said it
            warn_if_constant(fitted.path)
        warn_if_cut(fitted.path)
        return fitted

    def _ridge(self, data: TrainingData, numbers: np.ndarray, unit: float) -> float | str | Fitted:
        """The parameter `alpha`; "auto" where the ridge is chosen for the atoms of the pursuit, after it.

        The logistic loss takes the ridge of a fit with the squared loss, in the proportion in which the two bend along
        this fit. If this fit is interrupted it is the model, and is returned.
        """
        if not isinstance(self.alpha, str):
            return self.alpha
        if self.variant == "basic":
            return 0.0
        if self.loss == "squared":
            return "auto"
        quiet = replace(Settings.of(self), verbose=0, fit_task=None)
        limit = None if self.n_atoms == "auto" else self.n_atoms
        rules = no_rules if limit is not None else self._path_rule("gcv", data, numbers, loss="squared")
        squares = self._fit_once(
            data, numbers, quiet, limit=limit, rules=rules, loss="squared", alpha="auto", unit=unit
        )
        if squares.path.reason == "interrupted":
            return squares
        path = squares.path if squares.path.steps else squares.path.truncate(len(squares.path.discarded))
        kept = squares.expansion.truncate(len(path.atoms))  # along a fit without atoms nothing bends
        values = to_host(kept.predict(data.X, squares.weights.truncate(len(path)).last(), wide=True))
        return translated(float(squares.alpha or 0), self.loss, data, numbers[data.rows], values)

    def _path_rule(self, stop: Any, data: TrainingData, numbers: np.ndarray, loss: str = "") -> Rules:
        """Rule that reads the path alone."""
        count = len(np.unique(numbers[data.rows]))
        if isinstance(stop, str) and not self._closed_form(loss or self.loss):
            raise ValueError(
                f"stop={stop!r} needs loss='squared' and variant 'prefit' or 'backfit'; 'validation' does not"
            )
        if stop == "leave_one_group_out":
            if count == 1:
                raise ValueError("stop='leave_one_group_out' needs several groups, got one; 'gcv' does not")
            stop = leave_one_out(self.patience)
        elif stop == "gcv":
            stop = gcv(rows_counted(data) - (count - 1), 2.0, self.patience)
        return lambda family, criterion: [stop]

    def _fit_validated(
        self, data: TrainingData, numbers: np.ndarray, settings: Settings, *, limit: int | None, **shared: Any
    ) -> Fitted:
        """Choose the number of steps on groups held out, then fit that many on all of them."""
        if settings.fit_task is not None:
            settings.fit_task.begin(2)
        train, aside = split_groups(data, numbers[data.rows], self.validation_fraction, settings.rng)
        some, held_out = data.subset(train), data.subset(aside)
        loss = PAIRWISE[self.loss](numbers[held_out.rows], held_out.weights)
        rules = validation_rule(held_out, held_out.y, loss, self.patience)
        first = self._fit_once(some, numbers, settings, limit=limit, rules=rules, **shared)
        if first.path.reason == "interrupted":
            return first
        warn_if_cut(first.path)
        if settings.fit_task is not None:
            settings.fit_task.noted = []  # what was chosen is fitted, whatever callbacks ask
        fitted = self._fit_once(data, numbers, settings, limit=len(first.path), **shared)
        if fitted.path.reason != "interrupted":
            say_chosen(fitted.path, first.path, data.y)
        return fitted

    def _fit_certified(
        self, data: TrainingData, numbers: np.ndarray, settings: Settings, *, limit: int | None, unit: float
    ) -> Fitted:
        """Fit to some groups, and keep the number of steps of which the others promise most."""
        refuse_weights(data, "certificate")
        check_certifiable(numbers, limit, self._closed_form(self.loss))
        train, aside = split_groups(data, numbers, self.validation_fraction, settings.rng)
        some, held_out = data.subset(train), data.subset(aside)
        alpha = self._ridge(some, numbers, unit)  # the groups held out have no part in it
        if isinstance(alpha, Fitted):
            return alpha
        rules = self._path_rule("gcv", some, numbers) if self._closed_form(self.loss) else no_rules
        fitted = self._fit_once(some, numbers, settings, limit=limit, rules=rules, alpha=alpha, unit=unit)
        if fitted.path.reason == "interrupted":
            return fitted
        warn_if_cut(fitted.path)
        sizes, y = group_sizes(numbers[aside]), held_out.y[:, 0]
        scores = (to_host(values)[:, 0] for values in fitted.expansion.staged(held_out.X, fitted.weights))
        losses = np.array([wrong_pairs(y, one, sizes) for one in scores])
        return fitted._replace(path=certified_order(fitted.path, losses))

    def _fit_once(
        self,
        data: TrainingData,
        numbers: np.ndarray,
        settings: Settings,
        *,
        limit: int | None,
        rules: Rules = no_rules,
        wanted: int | None = None,
        loss: str | None = None,
        alpha: float | str,
        unit: float,
    ) -> Fitted:
        """Run one pursuit on the rows of `data`; `loss` is the parameter unless given."""
        loss = loss or self.loss
        centers = fewer_centers(check_centers(self.centers, data.X), len(data.rows))
        family: AtomFamily = atoms_of(self, data, settings.rng, centers)
        groups, targets = numbers[data.rows], beside(data.y, data.X)
        options = {
            "variant": self.variant,
            "alpha": 0.0 if isinstance(alpha, str) else alpha,
            "shrinkage": self.shrinkage if self.variant == "basic" else 1.0,
            "weights": None if data.weights is None else beside(data.weights, data.X),
            "intercept": False,
            "groups": groups,
        }

        def criterion(dictionary: Any) -> Any:
            if loss == "squared":
                return Squares(dictionary, targets, **options)
            of_pairs = PAIRWISE[loss](groups, data.weights)
            return Gradient(dictionary, targets, of_pairs, refit_every=self.refit_every, **options)

        def stop_rules(criterion: Any) -> list[StopRule]:
            largest = float(np.max(np.abs(data.y), initial=0))
            floor = (16 * np.finfo(data.y.dtype).eps * largest) ** 2 if loss == "squared" else 0.0
            return [
                *most_steps(limit, self.stop, self.variant),
                tolerance(settings.tol, floor),
                *rules(family, criterion),
            ]

        path, ready, _ = run(
            [family.dictionary],
            criterion,
            stop_rules,
            settings,
            data,
            basis=1 if self.variant == "basic" else limit,
            itemsize=16 if loss == "squared" else 8,  # the directions, and as much for groups left out
            wanted=wanted,
            unit=unit * unit,
            steps=limit,
        )
        taken = path.truncate(len(path) + len(path.discarded))
        atoms, weights = taken.atoms, ready.weight_path(len(taken))
        if isinstance(alpha, str):
            fit = OrthogonalFit.of(ready, targets, weights)
            alpha, _, weights, path = with_evidence_ridge(fit, path, rows_counted(data) - len(np.unique(groups)))
        return Fitted(path, family.support(atoms), family.expansion(atoms), weights, alpha)
