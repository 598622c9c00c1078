// SPDX-License-Identifier: Apache-2.0
#include "ops/formats/files/crc32c.h"

#include <array>
#include <cstring>

namespace sok {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, bit-reversed

/// tables[n][byte]: the register after `byte` and n zero bytes.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (size_t n = 1; n < tables.size(); ++n) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[n - 1][byte];
      tables[n][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

uint32_t ByTables(uint32_t state, const unsigned char* data, size_t num_bytes) {
  static const Tables kTables = MakeTables();
  for (; num_bytes >= 8; num_bytes -= 8, data += 8) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    word ^= state;
    state = 0;
    for (size_t n = 0; n < 8; ++n) state ^= kTables[7 - n][word >> (8 * n) & 0xff];
  }
  for (; num_bytes > 0; --num_bytes) state = state >> 8 ^ kTables[0][(state ^ *data++) & 0xff];
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

bool HasInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }

#else

uint32_t ByInstruction(uint32_t state, const unsigned char* data, size_t num_bytes) {
  return ByTables(state, data, num_bytes);
}

bool HasInstruction() { return false; }

#endif

}  // namespace

uint32_t Crc32c(uint32_t earlier, const void* data, size_t num_bytes) {
  static const bool kHasInstruction = HasInstruction();
  const auto* bytes = static_cast<const unsigned char*>(data);
  return ~(kHasInstruction ? ByInstruction : ByTables)(~earlier, bytes, num_bytes);
}

}  // namespace sok
