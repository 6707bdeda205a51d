"""Generalisation bounds of the matching pursuit family: numbers in, numbers out.

Arguments mean the same everywhere and broadcast: `k` atoms, `n` training points, `errors` a count of training points
*outside* the support that are wrong, `residual` a mean loss over the points outside the support, `delta` the
probability with which the bound may fail. A bound above its trivial value is returned as it is.

``form="corrected"`` is what the proof gives; ``form="paper"`` what was printed, where that differs.

References
----------
.. [S0] Hussain and Shawe-Taylor, Theory of matching pursuit, NIPS 2008.
.. [S1] Diethe and Hussain, Kernel polytope faces pursuit, ECML 2009.
.. [S2] Diethe, Hussain, Hardoon and Shawe-Taylor, Matching pursuit kernel Fisher discriminant analysis, AISTATS 2009.
.. [S3] Vincent and Bengio, Kernel matching pursuit, Machine Learning 48 (2002).
.. [K] Shawe-Taylor, Williams, Cristianini and Kandola, IEEE Transactions on Information Theory 51 (2005).
"""

from kernelpursuit.bounds.certificates import (
    cross_bound,
    drawn_bound,
    gibbs_error,
    holdout_bound,
    loss_bound,
    pac_bayes_bound,
    path_weights,
    stability_bound,
)
from kernelpursuit.bounds.losses import compression_bound, kpca_bound, pseudo_dimension_bound
from kernelpursuit.bounds.rates import binomial_bound, cca_bound, fisher_bound, mdl_bound, svm_bound, vc_bound

__all__ = [
    "binomial_bound",
    "cca_bound",
    "compression_bound",
    "cross_bound",
    "drawn_bound",
    "fisher_bound",
    "gibbs_error",
    "holdout_bound",
    "kpca_bound",
    "loss_bound",
    "mdl_bound",
    "pac_bayes_bound",
    "path_weights",
    "pseudo_dimension_bound",
    "stability_bound",
    "svm_bound",
    "vc_bound",
]
