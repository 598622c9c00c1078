# SPDX-License-Identifier: Apache-2.0
"""Reads Criteo files through tf.data: lines -> well-formed lines -> batches of tensors.

Whole blocks and batches go through a few vectorised ops (a map over single lines is several times
slower). One regular expression for each line decides whether it is well-formed; only the lines that
fail it are handed to Python, which says why. See criteo.py for the pattern, malformed.py for the
reasons.

Of several ranks each reads all lines, since the well-formed ones must be counted to know where a
batch begins, but parses only its share of each batch.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from examples.dlrm import criteo

# Dense inputs of the model: 13 values, then 13 flags "is missing".
DENSE_WIDTH = 2 * criteo.NUM_DENSE

_BLOCK_LINES = 2048
_HASH_BUCKETS = 2**58  # times 26 features stays within an int64


class Batch(NamedTuple):
    """Samples: tensors in the graph, NumPy arrays once fetched."""

    labels: Any  # [batch] float32, 0 or 1
    dense: Any  # [batch, DENSE_WIDTH] float32
    keys: Any  # [batch, 26] int64, distinct per feature


def read_batches(files, malformed, batch_size, rank=0, num_ranks=1):
    """A dataset of `Batch` over `files` (criteo.CriteoFile, one layout), in their order.

    The last batch may be short. Malformed lines are left out and counted in `malformed`.

    Of each batch of `batch_size` samples, rank 0 of 2 gets samples 0, 2, 4, ..., rank 1 the others.
    All ranks get the same number of batches; in the last one a rank's share may be empty.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    layout = files[0].layout
    blocks = tf.data.Dataset.from_tensor_slices(
        (
            np.arange(len(files), dtype=np.int64),
            [file.path for file in files],
            [file.compression for file in files],
            np.array([file.header_lines for file in files], dtype=np.int64),
        )
    ).flat_map(_read_blocks)

    def keep_good(file_number, first_line, lines):
        return _keep_good_lines(file_number, first_line, lines, layout, malformed)

    def parse_share(lines):
        return parse_lines(lines[rank::num_ranks], layout)

    in_order = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": True}
    batches = blocks.map(keep_good, **in_order).rebatch(batch_size)
    return batches.map(parse_share, **in_order).prefetch(4)


def _read_blocks(file_number, path, compression, header_lines):
    """Blocks (file number, number of the first line, lines) of one file."""
    lines = tf.data.TextLineDataset(path, compression).skip(header_lines)

    def place(block_number, block):
        return file_number, header_lines + block_number * _BLOCK_LINES + 1, block

    return lines.batch(_BLOCK_LINES).enumerate().map(place)


def _keep_good_lines(file_number, first_line, lines, layout, malformed):
    lines = tf.strings.lower(lines)
    is_good = tf.strings.regex_full_match(lines, layout.line_pattern())
    with tf.control_dependencies(
        [_count_malformed(file_number, first_line, lines, is_good, malformed)]
    ):
        return tf.boolean_mask(lines, is_good)


def parse_lines(lines, layout):
    """A Batch of well-formed lines (strings [batch], lower case)."""
    fields = tf.strings.split(lines, layout.separator).values
    fields = tf.reshape(fields, [-1, len(layout.columns)])
    label = fields[:, layout.columns.index(criteo.LABEL)]
    dense = _columns(fields, layout.positions(criteo.DENSE_NAMES))
    categories = _columns(fields, layout.positions(criteo.CATEGORICAL_NAMES))
    return Batch(tf.strings.to_number(label), dense_inputs(dense), hash_keys(categories))


def _count_malformed(file_number, first_line, lines, is_good, malformed):
    def count():
        is_bad = tf.logical_not(is_good)
        line_numbers = first_line + tf.reshape(tf.where(is_bad), [-1])
        bad_lines = tf.boolean_mask(lines, is_bad)
        return tf.numpy_function(
            _Adder(malformed), [file_number, line_numbers, bad_lines], tf.int64
        )

    return tf.cond(tf.reduce_all(is_good), lambda: tf.constant(0, tf.int64), count)


class _Adder:
    """What tf.numpy_function calls with the malformed lines of a block; returns their number."""

    def __init__(self, malformed):
        self._malformed = malformed

    def __call__(self, file_number, line_numbers, lines):
        self._malformed.add(file_number, line_numbers, lines)
        return np.int64(len(lines))


def _columns(fields, positions):
    """The columns at `positions` of `fields`; a slice when they are neighbours, else a gather."""
    first = positions[0]
    if positions == list(range(first, first + len(positions))):
        return fields[:, first : first + len(positions)]
    return tf.gather(fields, positions, axis=1)


def dense_inputs(fields):
    """[batch, 13] strings -> [batch, DENSE_WIDTH]: sign(x) log(1 + |x|), 0 where missing; flags."""
    is_missing = tf.equal(fields, "")
    numbers = tf.where(is_missing, tf.fill(tf.shape(fields), "0"), fields)
    numbers = tf.strings.to_number(numbers, tf.float64)
    values = tf.sign(numbers) * tf.math.log1p(tf.abs(numbers))
    inputs = tf.concat([tf.cast(values, tf.float32), tf.cast(is_missing, tf.float32)], axis=1)
    return tf.ensure_shape(inputs, [None, DENSE_WIDTH])


def hash_keys(fields):
    """[batch, 26] strings -> [batch, 26] int64 keys; a missing category is a key of its own.

    key = 26 * hash(text) + feature, so that equal texts of two features are different keys and
    one table can hold all features.
    """
    buckets = tf.strings.to_hash_bucket_fast(fields, _HASH_BUCKETS)
    features = tf.range(criteo.NUM_CATEGORICAL, dtype=tf.int64)
    return tf.ensure_shape(
        buckets * criteo.NUM_CATEGORICAL + features, [None, criteo.NUM_CATEGORICAL]
    )
