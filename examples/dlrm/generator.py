# SPDX-License-Identifier: Apache-2.0
"""Writes samples of the planted click model as a Criteo file (tab-separated, gzip for .gz)."""

import gzip
from typing import NamedTuple

import numpy as np

from examples.dlrm import criteo, planted

CHUNK_SAMPLES = 50_000
_DIGITS = 8
_LARGEST_NUMBER = 10**_DIGITS - 1
_NUMBER_WIDTH = 1 + _DIGITS  # sign and digits
_HEX_WIDTH = 8
_ABSENT = 0  # a byte that is taken out before writing


class Written(NamedTuple):
    """What was written, for those who want to know how good a model can be."""

    labels: np.ndarray  # [n]
    probabilities: np.ndarray  # [n]


def write_file(path, num_samples, seed, first_chunk=0, keep_going=lambda num_new: True):
    """Writes chunks `first_chunk`, `first_chunk + 1`, ... of `seed` and returns their `Written`.

    `keep_going(samples of the chunk)` is called after each chunk; false ends the file there.
    """
    labels, probabilities = [], []
    num_written = 0
    with _open(path) as stream:
        for chunk in range(first_chunk, first_chunk + chunks_of(num_samples)):
            size = min(CHUNK_SAMPLES, num_samples - num_written)
            samples = planted.draw(size, seed, chunk)
            stream.write(to_text(samples, seed))
            labels.append(samples.labels)
            probabilities.append(samples.probabilities)
            num_written += size
            if not keep_going(size):
                break
    return Written(np.concatenate(labels), np.concatenate(probabilities))


def chunks_of(num_samples):
    """How many chunks a file of `num_samples` takes."""
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}")
    return -(-num_samples // CHUNK_SAMPLES)


def _open(path):
    if str(path).endswith(".gz"):
        return gzip.open(path, "wb", compresslevel=1)
    return open(path, "wb")


def to_text(samples, seed):
    """The lines of `samples` as bytes: a matrix of fixed-width fields, absent bytes taken out."""
    count = len(samples.labels)
    columns = [(ord("0") + samples.labels).astype(np.uint8).reshape(count, 1)]
    columns.append(_after_tabs(_number_text(samples.numbers)))
    columns.append(_after_tabs(_category_text(samples.categories, seed)))
    columns.append(np.full((count, 1), ord("\n"), np.uint8))
    text = np.concatenate(columns, axis=1)
    return text[text != _ABSENT].tobytes()


def _after_tabs(fields):
    """[n, fields, width] -> [n, fields * (1 + width)]: a tab before each field."""
    count, num_fields, width = fields.shape
    text = np.full((count, num_fields, 1 + width), ord("\t"), np.uint8)
    text[:, :, 1:] = fields
    return text.reshape(count, -1)


def _number_text(numbers):
    """[n, 13] -> [n, 13, _NUMBER_WIDTH], missing numbers all absent."""
    is_missing = numbers == planted.MISSING_NUMBER
    magnitudes = np.minimum(np.abs(np.where(is_missing, 0, numbers)), _LARGEST_NUMBER)
    magnitudes = magnitudes.astype(np.uint32)
    text = np.empty((*numbers.shape, _NUMBER_WIDTH), np.uint8)
    text[..., 0] = np.where(numbers < 0, ord("-"), _ABSENT)
    rest = magnitudes
    for position in range(_NUMBER_WIDTH - 1, 0, -1):
        is_last = position == _NUMBER_WIDTH - 1
        digits = (ord("0") + rest % 10).astype(np.uint8)
        text[..., position] = digits if is_last else np.where(rest > 0, digits, _ABSENT)
        rest = rest // 10
    text[is_missing] = _ABSENT
    return text


def _category_text(categories, seed):
    """[n, 26] -> [n, 26, 8] hexadecimal digits; distinct categories of a feature stay distinct."""
    bits = _mix32(categories, np.arange(criteo.NUM_CATEGORICAL) + 100 * seed)
    text = np.empty((*categories.shape, _HEX_WIDTH), np.uint8)
    text[..., :4] = _FOUR_HEX_DIGITS[bits >> np.uint32(16)]
    text[..., 4:] = _FOUR_HEX_DIGITS[bits & np.uint32(0xFFFF)]
    text[categories == planted.MISSING_CATEGORY] = _ABSENT
    return text


def _mix32(values, stream):
    """A bijection of 32-bit numbers for each stream (xor-shift and multiply by odd numbers)."""
    bits = values.astype(np.uint32) + (np.asarray(stream) + 1).astype(np.uint32) * _GOLDEN
    bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x7FEB352D)
    bits = (bits ^ (bits >> np.uint32(15))) * np.uint32(0x846CA68B)
    return bits ^ (bits >> np.uint32(16))


_GOLDEN = np.uint32(0x9E3779B9)
_FOUR_HEX_DIGITS = np.frombuffer(
    "".join(f"{value:04x}" for value in range(1 << 16)).encode(), np.uint8
).reshape(-1, 4)
