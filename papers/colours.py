"""Colours of the pictures: those of the library's own for methods, and one for each quantity that is drawn."""

from kernelpursuit.plots import METHOD_COLOURS

KMP, VARIED, OURS = (METHOD_COLOURS[name] for name in ("KMP", "KMP, varied", "refined KMP"))
SVM, RIDGE, FISHER = (METHOD_COLOURS[name] for name in ("SVM", "kernel ridge", "kernel Fisher"))
NETWORK, LARS = METHOD_COLOURS["network"], METHOD_COLOURS["LARS"]
FACES, FACES_VARIED = METHOD_COLOURS["polytope faces"], METHOD_COLOURS["polytope faces, varied"]

TEST, TRAINING = "#0072B2", "#009E73"  # errors
CORRECTED, PRINTED = "#D55E00", "#E69F00"  # bounds
CERTIFICATE, OTHER, FURTHER = "#009E73", "#CC79A7", "#56B4E9"
SEVERAL = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # of things without a name
