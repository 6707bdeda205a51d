"""Small dense linear algebra on the host, numbers in and numbers out: what is learned in the span of chosen atoms.

basis.py is a growing QR factorisation and cholesky.py a growing partial Cholesky factor; both have the guards against
rounding that the pursuits rely on. weights.py holds the weights after every step of a path. evidence.py chooses a
ridge, or the variances of signal and noise. calibration.py makes probabilities; discriminants.py, canonical.py and
principal.py are the analyses of the estimators that bear these names.
"""
