# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, by which TensorFlow's checkpoints and dumps are checked, with NumPy."""

import functools

import numpy as np

_POLYNOMIAL = 0x82F63B78  # the bits of Castagnoli's, the lowest power first
_ALL_ONES = 0xFFFFFFFF
_LANES = (1 << 14, 1 << 7)  # words that are worked on at once, in large and in small data
_MASK_ADDEND = 0xA282EAD8


def crc32c(data, earlier=0):
    """The sum of what had the sum `earlier`, followed by `data`, bytes or a contiguous array."""
    data = np.frombuffer(data, np.uint8)
    register = earlier ^ _ALL_ONES
    for lanes in _LANES:
        num_words = data.size // 4 // lanes * lanes
        if num_words > lanes:
            words = data[: 4 * num_words].view("<u4").reshape(-1, lanes)
            data = np.concatenate([_folded(words, register).view(np.uint8), data[4 * num_words :]])
            register = 0
    table = _byte_table()
    for byte in data.tolist():
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register ^ _ALL_ONES


def unmasked(stored):
    """The sum that TensorFlow has stored as `stored`."""
    rotated = (stored - _MASK_ADDEND) & _ALL_ONES
    return (rotated >> 17 | rotated << 15) & _ALL_ONES


def _folded(words, register):
    """uint32 [lanes]: words that leave a register of 0 in the state in which `words` [n, lanes]
    leave `register`.

    The state is linear in the words: a row may be put off by one, multiplied by what `lanes` words
    of zeros make of a state.
    """
    low, high = _advanced(words.shape[1])
    folded = words[0].copy()
    folded[0] ^= register
    halves = folded.view("<u2").reshape(-1, 2)
    of_low, of_high = np.empty_like(folded), np.empty_like(folded)
    for row in words[1:]:
        # "wrap" writes to `out` without a copy in between; all are in range.
        np.take(low, halves[:, 0], out=of_low, mode="wrap")
        np.take(high, halves[:, 1], out=of_high, mode="wrap")
        np.bitwise_xor(of_low, of_high, out=of_low)
        np.bitwise_xor(of_low, row, out=folded)
    return folded


@functools.cache
def _byte_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@functools.cache
def _advanced(num_words):
    """Two arrays [65536]: the state after `num_words` words of zeros, a power of two of them, of
    what the low and the high half of a state are."""
    images = [1 << bit for bit in range(32)]  # what becomes of each bit of a state
    for _ in range(4):
        images = [_byte_table()[image & 0xFF] ^ image >> 8 for image in images]
    for _ in range(num_words.bit_length() - 1):
        images = [_image(images, image) for image in images]
    tables = []
    for half in (images[:16], images[16:]):
        table = np.zeros(1, np.uint32)
        for image in half:
            table = np.concatenate([table, table ^ np.uint32(image)])
        tables.append(table)
    return tables


def _image(images, state):
    result = 0
    for bit, image in enumerate(images):
        if state >> bit & 1:
            result ^= image
    return result
