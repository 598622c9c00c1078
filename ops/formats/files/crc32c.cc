// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/crc32c.h"

#include <array>
#include <cstring>

namespace sok {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bit-reversed

/// The register after each byte.
std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}

uint32_t ByTable(uint32_t state, const unsigned char* data, size_t num_bytes) {
  static const auto kTable = MakeTable();
  for (; num_bytes > 0; --num_bytes) state = state >> 8 ^ kTable[(state ^ *data++) & 0xff];
  return state;
}

#if defined(__x86_64__)

/// 8 bytes in three cycles.
__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t state, const unsigned char* data,
                                                         size_t num_bytes) {
  uint64_t wide = state;
  for (; num_bytes >= 8; num_bytes -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; num_bytes > 0; --num_bytes) narrow = __builtin_ia32_crc32qi(narrow, *data++);
  return narrow;
}

#endif

}  // namespace

uint32_t Crc32c(uint32_t earlier, const void* data, size_t num_bytes) {
  const auto* bytes = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool kHasInstruction = __builtin_cpu_supports("sse4.2") != 0;
  if (kHasInstruction) return ~ByInstruction(~earlier, bytes, num_bytes);
#endif
  return ~ByTable(~earlier, bytes, num_bytes);
}

}  // namespace sok
