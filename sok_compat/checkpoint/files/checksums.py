# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, the checksum of TensorFlow's checkpoints and of dumps, with NumPy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bit-reversed
_ALL_ONES = 0xFFFFFFFF
_LANES = (1 << 14, 1 << 7)  # words processed at once, for large and for small data
_MASK_ADDEND = 0xA282EAD8


def crc32c(data: Any, earlier: int = 0) -> int:
    """The checksum of `data`, appended to bytes with the checksum `earlier`.

    Args:
      data: bytes or a contiguous array.
      earlier: a checksum; 0 for no bytes.
    """
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


def unmasked(stored: int) -> int:
    """The checksum behind the masked form that TensorFlow stores."""
    rotated = (stored - _MASK_ADDEND) & _ALL_ONES
    return (rotated >> 17 | rotated << 15) & _ALL_ONES


def _folded(words, register):
    """uint32 [lanes]: words that take a zero register to the state to which `words` [n, lanes] take
    `register`.

    The state is linear in the words. So a row can be added to the next one, once it is advanced by
    `lanes` zero words.
    """
    low, high = _advanced(words.shape[1])
    folded = words[0].copy()
    folded[0] ^= register
    halves = folded.view("<u2").reshape(-1, 2)
    of_low, of_high = np.empty_like(folded), np.empty_like(folded)
    for row in words[1:]:
        # mode="wrap" writes to `out` without a buffer; all indices are in range.
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
    """Two arrays [65536]: the low and high halves of a state, advanced by `num_words` zero words.

    num_words: a power of two.
    """
    images = [1 << bit for bit in range(32)]  # each bit of a state, advanced
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
