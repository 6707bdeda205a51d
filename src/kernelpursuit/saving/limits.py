"""Limits on archives of skops: one that would take far more memory than its size is refused before it is read."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

SCHEMA = "schema.json"
MIB = 1 << 20
LARGEST_SCHEMA, LARGEST_CONTENT = 64 * MIB, 1024 * MIB  # bytes when inflated

KEYS = {"format", "version", "made_with", "model"}

# Loader of skops, as the schema names it -> ending of the entries that it reads.
ENDINGS = {"NdArrayNode": ".npy", "SparseMatrixNode": ".npz", "BytesNode": ".bin", "BytearrayNode": ".bin"}


def check_limits(data: bytes) -> None:
    """ValueError where an archive has too long a schema, entries too large as often as they are read, or false ones."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = inflated_size(archive, SCHEMA)
        if size > LARGEST_SCHEMA:
            raise ValueError(f"a header of {size} bytes; {LARGEST_SCHEMA} are allowed")
        schema = json.loads(archive.read(SCHEMA))
        check_keys(schema)
        names = entries_read(schema)
        sizes = {name: inflated_size(archive, name) for name in set(names)}
        check_total(sizes[name] for name in names)
        for name in filter(lambda name: name.endswith(".npz"), sizes):
            with zipfile.ZipFile(io.BytesIO(archive.read(name))) as inner:
                sizes[name] += sum(inflated_size(inner, part) for part in inner.namelist())
        check_total(sizes[name] for name in names)
        for name in sizes:
            if name.endswith(".npy"):
                check_array_size(archive, name)
            if name.endswith(".npz"):
                check_sparse(archive.read(name))


def check_total(sizes: Iterable[int]) -> None:
    """ValueError where entries take too many bytes together."""
    if sum(sizes) > LARGEST_CONTENT:
        raise ValueError(f"it would take more than {LARGEST_CONTENT // MIB} MiB when inflated")


def check_keys(schema: Any) -> None:
    """ValueError where the entries of an archive are not those that `pack_archive` writes."""
    is_dict = isinstance(schema, dict) and schema.get("__loader__") == "DictNode"
    keys = set(schema["content"]) if is_dict else set()
    if not keys >= KEYS:
        raise ValueError("a skops file, but not one that kernelpursuit.save wrote")
    if unknown := keys - KEYS:
        raise ValueError(f"it holds {', '.join(sorted(unknown))} beside the model")


def entries_read(schema: Any) -> list[str]:
    """Names of the entries that skops reads for a schema, each as often as it is read."""
    names, seen, nodes = [], set(), [schema]
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes += node
        if not isinstance(node, dict):
            continue
        nodes += node.values()
        if not isinstance(name := node.get("file"), str):
            continue
        loader, number = node.get("__loader__"), node.get("__id__")
        if not name.endswith(ENDINGS.get(str(loader), "/")):
            raise ValueError(f"an entry called {name} for a {loader}")
        if number and (number, name) in seen:  # skops keeps what has a number
            continue
        seen.add((number, name))
        names.append(name)
    return names


def inflated_size(archive: zipfile.ZipFile, name: str) -> int:
    """Bytes of an entry, which no more than that are read of. Only deflated entries are inflated piece by piece."""
    entry = archive.getinfo(name)
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"the entry {name} is compressed as those of model files are not")
    return entry.file_size


def check_array_size(archive: zipfile.ZipFile, name: str) -> None:
    """ValueError for an array whose head says more than it has: memory is taken before the values are read."""
    size = inflated_size(archive, name)
    with archive.open(name) as stream:
        major, _ = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    if dtype.hasobject or int(np.prod([1.0, *shape])) * dtype.itemsize > size:
        raise ValueError(f"an array of shape {shape} in {size} bytes")


def check_sparse(data: bytes) -> None:
    """ValueError for a sparse matrix of false parts: of arrays as above, and of indices that lie beside it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            check_array_size(archive, name)
    matrix = sparse.load_npz(io.BytesIO(data))
    if matrix.format not in ("csr", "csc"):
        raise ValueError(f"a sparse matrix of format {matrix.format}")
    matrix.check_format(full_check=True)
