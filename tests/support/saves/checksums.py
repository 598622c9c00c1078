# SPDX-License-Identifier: Apache-2.0
"""CRC-32C, the checksum of TensorFlow's checkpoints and of dumps."""

from __future__ import annotations

from typing import Any

import numpy as np

from sok_compat.engine import _engine


def crc32c(data: Any, earlier: int = 0) -> int:
    """The checksum of `data`, appended to bytes with the checksum `earlier`.

    Args:
      data: bytes or a contiguous array.
      earlier: a checksum; 0 for no bytes.
    """
    data = np.frombuffer(data, np.uint8)
    return _engine.crc32c(earlier, data.ctypes.data, data.size)
