# SPDX-License-Identifier: Apache-2.0
"""Criteo files of the planted click model of examples/dlrm, in the three ways that scripts read."""

import io
import os

import numpy as np

from benchmarks.modelzoo import planting
from examples.dlrm import criteo, generator, planted

LABEL = "clicked"
COLUMNS = (LABEL, *criteo.DENSE_NAMES, *criteo.CATEGORICAL_NAMES)
MISSING = " "  # what scripts put in the place of a missing category of a csv file
# Distinct categories of C1..C26 in Criteo's terabyte set. SOK's script has tables of an eighth.
TERABYTE_CARDINALITIES = np.array([
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10,
    2208, 11938, 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
])  # fmt: skip
_NUM_PARTS = 4
_EXACT_IN_FLOAT32 = 1 << 24
# The largest I1..I13 of the Kaggle set; scripts have buckets for those of I10.
_LARGEST_NUMBERS = np.array([
    1539, 22066, 65535, 561, 2655388, 233523, 26297, 5106, 24376, 9, 181, 1807, 6879,
])  # fmt: skip


def write(folder, sizes, seed):
    """train and eval, each as .csv (no header) and as .parquet, whose C1..C26 are strings; also
    .csv.1 to .csv.3, a quarter each, which the script with a work queue takes besides."""
    for name, text in _drawn(sizes, seed):
        path = os.path.join(folder, f"{name}.csv")
        lines = text.splitlines()
        planting.write_lines(path, lines)
        for part in range(1, _NUM_PARTS):
            planting.write_lines(f"{path}.{part}", lines[part::_NUM_PARTS])
        planting.write_parquet(os.path.join(folder, f"{name}.parquet"), _columns_of(text))


def write_int64(folder, sizes, seed):
    """The same; C1..C26 are numbers below 2 ** 32."""
    import pyarrow
    import pyarrow.csv

    for name, text in _drawn(sizes, seed):
        columns = _columns_of(text)
        columns |= {key: _as_numbers(columns[key]) for key in criteo.CATEGORICAL_NAMES}
        planting.write_parquet(os.path.join(folder, f"{name}.parquet"), columns)
        options = pyarrow.csv.WriteOptions(include_header=False)
        path = os.path.join(folder, f"{name}.csv")
        pyarrow.csv.write_csv(pyarrow.table(columns), path, options)


def write_binary(folder, sizes, seed):
    """train/ and test/ with label.bin int32 [n], dense.bin float32 [n, 13] and category.bin float32
    [n, 26], in the order of SparseOperationKit's DLRM."""
    for chunk, (name, size) in enumerate(sizes.items()):
        samples = planted.draw(size, seed, chunk)
        numbers = np.where(samples.numbers == planted.MISSING_NUMBER, 0, samples.numbers)
        limits = np.minimum(TERABYTE_CARDINALITIES // 8 + 1, _EXACT_IN_FLOAT32)
        target = os.path.join(folder, planting.PART_NAMES[name])
        os.makedirs(target, exist_ok=True)
        samples.labels.astype(np.int32).tofile(os.path.join(target, "label.bin"))
        numbers.astype(np.float32).tofile(os.path.join(target, "dense.bin"))
        keys = np.maximum(samples.categories, 0) % limits
        keys.astype(np.float32).tofile(os.path.join(target, "category.bin"))


def _drawn(sizes, seed):
    """Yields (name of the file, its text)."""
    for chunk, (name, size) in enumerate(sizes.items()):
        samples = planted.draw(size, seed, chunk)
        numbers = np.minimum(samples.numbers, _LARGEST_NUMBERS)
        text = generator.to_text(samples._replace(numbers=numbers), seed)
        yield name, text.decode().replace("\t", ",")


def _columns_of(text):
    """{name: pyarrow's column}; missing numbers are 0, missing categories MISSING."""
    import pyarrow
    import pyarrow.csv

    types = {
        LABEL: pyarrow.int32(),
        **dict.fromkeys(criteo.DENSE_NAMES, pyarrow.float32()),
        **dict.fromkeys(criteo.CATEGORICAL_NAMES, pyarrow.string()),
    }
    table = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        pyarrow.csv.ReadOptions(column_names=list(types)),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=types, null_values=[""], strings_can_be_null=True
        ),
    )
    return {
        name: table[name].fill_null(MISSING if name in criteo.CATEGORICAL_NAMES else 0)
        for name in types
    }


def _as_numbers(column):
    """int64 [n] of hexadecimal texts; 0 where missing."""
    encoded = column.combine_chunks().dictionary_encode()
    numbers = [int(text.strip() or "0", 16) for text in encoded.dictionary.to_pylist()]
    return np.array(numbers, np.int64)[encoded.indices.to_numpy()]
