# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as DeepRec writes them, without sok_compat."""

import numpy as np
import tensorflow as tf

NUM_BUCKETS = 1000
KINDS = ("keys", "versions", "freqs")


def write_tensors(path, tensors):
    """{name: value}, as a checkpoint."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(
            tf.raw_ops.SaveV2(
                prefix=path,
                tensor_names=list(tensors),
                shape_and_slices=[""] * len(tensors),
                tensors=[tf.constant(value) for value in tensors.values()],
            )
        )


def in_buckets(keys):
    """Where each key is put: bucket after bucket."""
    return sorted(keys, key=lambda key: (key % NUM_BUCKETS, key))


def starts(keys):
    buckets = np.array(keys, np.int64) % NUM_BUCKETS
    return np.searchsorted(buckets, np.arange(NUM_BUCKETS + 1)).astype(np.int32)


def tensors_of(name, rows, dim, num_parts=None, key_dtype=np.int64, recorded=None, filtered=None):
    """{name: value} of the nine tensors of one plane, of each part.

    Args:
      name: without "/part_<i>"; that comes in the place of a "|", or at the end.
      rows: {key: row}.
      dim: floats in a row.
      num_parts: None: whole.
      key_dtype: of the keys.
      recorded: {key: (version, freq)}; None: nothing is.
      filtered: the same of keys without a row.
    """
    tensors = {}
    head, _, tail = name.partition("|")
    for part in range(num_parts or 1):
        infix = "" if num_parts is None else f"/part_{part}"
        keys, without_row = (
            [key for key in in_buckets(all_keys) if key % NUM_BUCKETS % (num_parts or 1) == part]
            for all_keys in (rows, filtered or {})
        )
        values = [rows[key] for key in keys]
        versions, freqs = np.reshape([recorded[key] for key in keys] if recorded else [], [-1, 2]).T
        of_filtered = np.reshape([filtered[key] for key in without_row], [-1, 2]).T
        tensors.update({
            f"{head}{infix}{tail}-{what}": value
            for what, value in {
                "keys": np.array(keys, key_dtype),
                "values": np.array(values, np.float32).reshape(-1, dim),
                "versions": versions.astype(np.int64),
                "freqs": freqs.astype(np.int64),
                "keys_filtered": np.array(without_row, key_dtype),
                "versions_filtered": of_filtered[0].astype(np.int64),
                "freqs_filtered": of_filtered[1].astype(np.int64),
                "partition_offset": starts(keys),
                "partition_filter_offset": starts(without_row),
            }.items()
        })  # fmt: skip
    return tensors
