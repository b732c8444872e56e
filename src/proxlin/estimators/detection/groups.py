"""Groups of about the same size: where a table has several, none of them is a crowd of outliers.

A bulk of three quarters of the rows leaves out a whole group of a fifth of them, and calls it odd,
although four others are no larger. It has to take its share of each.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.neighbors import NearestNeighbors

from proxlin.estimators.detection.bulk import Groups
from proxlin.estimators.tables import Matrix

_LEAST = 0.75  # of the size of the group of a usual row: a smaller one may be wrong as a whole
_LEAST_SHARE = 0.1  # of the rows, which a group has at least


def equal_groups(rows: NearestNeighbors, z: Matrix, share: float) -> Groups:
    """The group of each row of z, -1 for rows of none; all 0 unless groups hold the share of them.

    Groups are rows that a chain of neighbours connects; the rows of the emptiest neighbourhoods,
    all but the share, are no links of it.
    """
    distances, near = rows.kneighbors(n_neighbors=min(rows.n_neighbors, rows.n_samples_fit_ - 1))
    emptiness = distances.mean(axis=1)
    linked = emptiness <= np.quantile(emptiness, share)
    ends = np.repeat(np.arange(len(near)), near.shape[1]), near.ravel()
    links = linked[ends[0]] & linked[ends[1]]
    graph = coo_array((links, ends), shape=(len(near), len(near))).tocsr()
    graph.eliminate_zeros()
    group = connected_components(graph, directed=False)[1]
    sizes = np.bincount(group[linked], minlength=len(near))
    least = max(_LEAST * float(np.median(sizes[group[linked]])), _LEAST_SHARE * linked.sum())
    usual = np.flatnonzero(sizes >= least)
    if len(usual) < 2 or sizes[usual].sum() < share * linked.sum():
        return np.zeros(len(z), dtype=np.intp)
    number = np.full(len(near), -1)
    number[usual] = np.arange(len(usual))
    near = rows.kneighbors(z, return_distance=False)
    first = near[np.arange(len(near)), linked[near].argmax(axis=1)]  # of the neighbours, linked
    found: Groups = np.where(linked[first], number[group[first]], -1)
    return found
