// SPDX-License-Identifier: Apache-2.0
// CRC-32C, the checksum of TensorFlow's checkpoints and of dumps.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sok {

/// The checksum of bytes that follow those with the checksum `earlier`; 0 for none.
uint32_t Crc32c(uint32_t earlier, const void* data, size_t num_bytes);

/// The checksum behind the masked form that TensorFlow stores.
inline uint32_t UnmaskedCrc32c(uint32_t stored) {
  const uint32_t rotated = stored - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

}  // namespace sok
