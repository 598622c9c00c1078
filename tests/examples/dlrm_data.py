# SPDX-License-Identifier: Apache-2.0
"""Small Criteo files for the tests of examples/dlrm, and the real sample where there is one."""

import gzip
import os
import pathlib

import numpy as np
import tensorflow as tf

from examples.dlrm import criteo, malformed, reader

ROOT = pathlib.Path(__file__).resolve().parents[2]


def sample_path():
    """criteo_sample.csv in $SOK_TEST_DATA or in ../shared/data; the file need not exist."""
    folder = os.environ.get("SOK_TEST_DATA") or ROOT.parent / "shared" / "data"
    return pathlib.Path(folder) / "criteo_sample.csv"


def record(label="0", numbers=(), categories=()):
    """The 40 fields of a line; what is not given is missing."""
    numbers = [*numbers, *[""] * (criteo.NUM_DENSE - len(numbers))]
    categories = [*categories, *[""] * (criteo.NUM_CATEGORICAL - len(categories))]
    return [label, *numbers, *categories]


def write(path, records, separator="\t", header=None, newline="\n"):
    """Writes lists of fields (or ready lines) as a file, gzip for .gz; returns the path."""
    lines = [line if isinstance(line, str) else separator.join(line) for line in records]
    if header is not None:
        lines.insert(0, separator.join(header))
    text = "".join(line + newline for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def read(paths, batch_size=100, file_format="auto", rank=0, num_ranks=1):
    """(batches as NumPy, MalformedLines) of one pass, in a graph and a session of its own."""
    files = criteo.inspect_files(paths, file_format)
    counts = malformed.MalformedLines([file.path for file in files], files[0].layout)
    batches = []
    with tf.Graph().as_default():
        dataset = reader.read_batches(files, counts, batch_size, rank, num_ranks)
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        with tf.compat.v1.Session() as session:
            while True:
                try:
                    batches.append(session.run(batch))
                except tf.errors.OutOfRangeError:
                    break
    return batches, counts


def read_all(paths, file_format="auto"):
    """As above, all batches joined to one."""
    batches, counts = read(paths, 1000, file_format)
    return reader.Batch(*map(np.concatenate, zip(*batches))), counts
