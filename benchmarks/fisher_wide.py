"""Sparse kernel Fisher discriminants on wide data, beside the numbers printed for the method and for an SVM.

Three sets of the NIPS 2003 challenge, trained on the training part and tested on the validation part, with defaults, a
linear kernel and the number of atoms that was printed. The peer measured here is SVC with a linear kernel.

Run: ``python benchmarks/fisher_wide.py --data DIR [--out FILE]``; DIR holds arcene.npz, dexter.npz and dorothea.npz and
defaults to the environment variable KERNELPURSUIT_DATA.
"""

from __future__ import annotations

import numpy as np
from sklearn.svm import SVC

from _common import load, parser, write
from kernelpursuit import SparseKernelFDA

PRINTED = {"arcene": (40, 0.18), "dexter": (40, 0.08), "dorothea": (11, 0.0571)}  # atoms and error of MPKFDA


def main() -> None:
    """Print the errors and write the record."""
    options = parser(__doc__, "fisher_wide")
    arguments = options.parse_args()
    records = []
    for name, (atoms, printed) in PRINTED.items():
        found = load(name, arguments.data)
        X, y, X_valid, y_valid = found.data, found.target, found.data_valid, found.target_valid
        model = SparseKernelFDA(atoms, kernel="linear").fit(X, y)
        machine = SVC(kernel="linear").fit(X, y)
        error, svc = (float(np.mean(m.predict(X_valid) != y_valid)) for m in (model, machine))
        records.append({"set": name, "atoms": len(model.support_), "error": error, "printed": printed, "svc": svc})
        records[-1]["svc_terms"] = len(machine.support_)
        print(", ".join(f"{key}={value}" for key, value in records[-1].items()))
    write(records, arguments.out)


if __name__ == "__main__":
    main()
