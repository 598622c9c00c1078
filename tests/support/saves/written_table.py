# SPDX-License-Identifier: Apache-2.0
"""One table `emb` and two ordinary variables, in files of each layout."""

import numpy as np
import tensorflow as tf

from sok_compat.checkpoint import assign_rows, dump_to_files
from sok_compat.tables import Table
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors

DIM = 3
ROWS = {key: (float(key), 0.5, -1.0) for key in (5, 1002, -4, 2**40)}
SLOTS = {key: (9.0, float(key), 2.0) for key in ROWS}
DENSE = {"dense": np.float32([3, 4]), "words": np.array([b"a", b"bc"])}


def write_rows(path, rows, slots=None):
    """A checkpoint of the layout of sok_compat's tables, in two slices."""
    keys = np.array(list(rows), np.int64)
    tensors = {"emb/keys": keys, "emb/rows": np.array(list(rows.values()), np.float32)}
    if slots:
        tensors["emb/Adam"] = np.array([slots[key] for key in rows], np.float32)
    names, shapes, values = [], [], []
    for name, value in tensors.items():
        for first, end in ((0, 1), (1, len(keys))):
            names.append(name)
            shape = " ".join(map(str, value.shape))
            shapes.append(f"{shape} {first},{end - first}{':-' * (value.ndim - 1)}")
            values.append(tf.constant(value[first:end]))
    for name, value in DENSE.items():
        names.append(name)
        shapes.append("")
        values.append(tf.constant(value))
    tf.raw_ops.SaveV2(prefix=path, tensor_names=names, shape_and_slices=shapes, tensors=values)


def write_buckets(path, rows, slots=None):
    """DeepRec's layout, in two parts."""
    counts = {key: (1, 2) for key in rows}
    tensors = tensors_of("emb", rows, DIM, 2, recorded=counts, filtered={7: (1, 1)})
    if slots:
        tensors.update(tensors_of("emb|/Adam", {k: slots[k] for k in rows}, DIM, 2))
    write_tensors(path, {**tensors, **DENSE})


def write_dump(path, rows, slots=None):
    """As sok.Saver."""
    del slots
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = Table(16, DIM, name="emb")
        session.run(table.initializer)
        session.run(assign_rows(table, list(rows), list(rows.values())))
        session.run(dump_to_files(table, path))
