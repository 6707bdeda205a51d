"""Sparse kernel Fisher discriminants on wide data, beside the numbers printed for the method and for an SVM.

Three sets of the NIPS 2003 challenge, trained on the training part and tested on the validation part, with defaults, a
linear kernel and the number of atoms that was printed. The peer measured here is SVC with a linear kernel.

Run: ``python benchmarks/fisher_wide.py --data DIR [--out FILE]``; DIR holds arcene.npz, dexter.npz and dorothea.npz and
defaults to the environment variable KERNELPURSUIT_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.svm import SVC

from kernelpursuit import SparseKernelFDA

PRINTED = {"arcene": (40, 0.18), "dexter": (40, 0.08), "dorothea": (11, 0.0571)}  # atoms and error of MPKFDA


def load(folder: Path, name: str) -> tuple:
    """Training and validation part, sparse where the file is."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        part = dict(file)
    if "indptr" not in part:
        return part["X"].astype(float), part["y"], part["X_valid"].astype(float), part["y_valid"]

    def matrix(suffix: str) -> csr_array:
        indices = part[f"indices{suffix}"].astype(np.int32)
        values = part[f"data{suffix}"].astype(float) if f"data{suffix}" in part else np.ones(len(indices))
        return csr_array(
            (values, indices, part[f"indptr{suffix}"].astype(np.int32)), shape=part.get(f"shape{suffix}", part["shape"])
        )

    return matrix(""), part["y"], matrix("_valid"), part["y_valid"]


def main() -> None:
    """Print the errors and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("KERNELPURSUIT_DATA"))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "records" / "fisher_wide.json")
    arguments = parser.parse_args()
    if arguments.data is None:
        raise SystemExit("give the folder with the data sets with --data or KERNELPURSUIT_DATA")
    records = []
    for name, (atoms, printed) in PRINTED.items():
        X, y, X_valid, y_valid = load(Path(arguments.data), name)
        model = SparseKernelFDA(atoms, kernel="linear").fit(X, y)
        machine = SVC(kernel="linear").fit(X, y)
        error, svc = (float(np.mean(m.predict(X_valid) != y_valid)) for m in (model, machine))
        records.append({"set": name, "atoms": len(model.support_), "error": error, "printed": printed, "svc": svc})
        records[-1]["svc_terms"] = len(machine.support_)
        print(", ".join(f"{key}={value}" for key, value in records[-1].items()))
    arguments.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
