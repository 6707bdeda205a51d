"""Dask collections, fitted where their rows are. Loaded by `fitting.rows` when a collection has come.

collections.py takes the rows of a fit in, and applies fitted models to chunks. cluster_rows.py is the `RowSource` of
these rows, with atoms.py, criteria.py and descent.py. Below it are remote arrays (arrays.py): their commands go to
shards of the rows (shard.py; scratch.py for rows in files), which are actors of Dask (cluster.py).
"""
