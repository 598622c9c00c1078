# SPDX-License-Identifier: Apache-2.0
"""What the generators share: skewed categories, and log-odds that depend on them."""

import zlib

import numpy as np

ZIPF_EXPONENT = 1.1
PART_NAMES = {"train": "train", "eval": "test"}  # in files of Taobao, Amazon and SOK


def draw_categories(random, num_samples, cardinality):
    """int64 [num_samples] in [0, cardinality), the small ones most often (truncated Zipf)."""
    power = 1.0 - ZIPF_EXPONENT
    ranks = (1.0 + random.random(num_samples) * ((cardinality + 1.0) ** power - 1.0)) ** (1 / power)
    return np.minimum(ranks.astype(np.int64), cardinality) - 1


def table_of(seed, name, *shape):
    """float64 standard normal numbers: a pure function of seed and name."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape)


def draw_labels(random, log_odds):
    """int64 of the shape of `log_odds`."""
    return (random.random(log_odds.shape) < 1.0 / (1.0 + np.exp(-log_odds))).astype(np.int64)


def write_lines(path, lines):
    """A text file; each line ends with a newline."""
    with open(path, "w") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_parquet(path, columns):
    """A Parquet file of {name: array or list}; text becomes strings.

    Raises:
      ImportError: pyarrow is not installed.
    """
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
