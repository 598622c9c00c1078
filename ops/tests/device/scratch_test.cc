// SPDX-License-Identifier: Apache-2.0
// Scratch memory of a device table's calls: kept between calls, and usable after a refusal.
#include "ops/device/memory/scratch.h"

#include <new>

#include "ops/tests/check.h"

namespace sok {
namespace {

/// Hands out at most `limit_bytes` at a time.
struct SmallQueue {
  int64_t limit_bytes;
  int64_t num_allocations = 0;

  void* Allocate(int64_t bytes) {
    if (bytes > limit_bytes) Throw(ErrorCode::kOutOfMemory, "no ", bytes, " bytes");
    ++num_allocations;
    return ::operator new(static_cast<size_t>(bytes));
  }
  void Free(void* memory) noexcept { ::operator delete(memory); }
};

using SmallScratch = Scratch<SmallQueue>;

void TakeTwice(SmallScratch& scratch, int64_t bytes) {
  const SmallScratch::Frame frame(scratch);
  auto* first = scratch.Take<char>(bytes);
  auto* second = scratch.Take<char>(bytes);
  CHECK_TRUE(second >= first + bytes || first >= second + bytes);
  first[bytes - 1] = second[bytes - 1] = 1;
}

SOK_TEST(CallsOfOneSizeAllocateNoMore) {
  SmallQueue queue{1 << 20};
  SmallScratch scratch(queue);
  for (int call = 0; call < 2; ++call) TakeTwice(scratch, 1000);
  const int64_t num_allocations = queue.num_allocations;
  for (int call = 0; call < 3; ++call) TakeTwice(scratch, 1000);
  CHECK_EQ(queue.num_allocations, num_allocations);
}

SOK_TEST(ARefusedPieceFailsItsCallOnly) {
  SmallQueue queue{10'000};
  SmallScratch scratch(queue);
  CHECK_THROWS(ErrorCode::kOutOfMemory, {"no "}, TakeTwice(scratch, 20'000));
  for (int call = 0; call < 3; ++call) TakeTwice(scratch, 1000);
}

SOK_TEST(ARefusedJoinFailsOneCallOnly) {
  SmallQueue queue{10'000};
  SmallScratch scratch(queue);
  TakeTwice(scratch, 8000);  // two blocks, too large for one
  CHECK_THROWS(ErrorCode::kOutOfMemory, {"no "}, TakeTwice(scratch, 1000));
  for (int call = 0; call < 3; ++call) TakeTwice(scratch, 1000);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
