// SPDX-License-Identifier: Apache-2.0
// ReservedMemory: zeros, growth that keeps the contents, released pages, refusals.
#include <cstring>
#include <utility>

#include "ops/base/memory/reserved_memory.h"
#include "ops/tests/check.h"

namespace sok {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
using Words = std::vector<std::string>;

char* Bytes(const ReservedMemory& memory) { return static_cast<char*>(memory.data()); }

SOK_TEST(IsZeroAndWritableToItsEnd) {
  for (const size_t bytes : {size_t{1}, size_t{4097}, 5 * kMiB + 1}) {
    for (const PageSize page_size : {PageSize::kSmall, PageSize::kHuge}) {
      const ReservedMemory memory(bytes, page_size);
      CHECK_EQ(memory.size_bytes(), bytes);
      CHECK_EQ(int{Bytes(memory)[0]}, 0);
      CHECK_EQ(int{Bytes(memory)[bytes - 1]}, 0);
      std::memset(memory.data(), 1, bytes);
    }
  }
}

SOK_TEST(HugePagesAreAligned) {
  const ReservedMemory memory(4 * kMiB, PageSize::kHuge);
  CHECK_EQ(reinterpret_cast<size_t>(memory.data()) % (2 * kMiB), size_t{0});
}

SOK_TEST(ReservesMoreThanTheMachineHas) {
  const ReservedMemory memory(size_t{1} << 40, PageSize::kSmall);
  Bytes(memory)[memory.size_bytes() - 1] = 7;
  CHECK_EQ(int{Bytes(memory)[memory.size_bytes() - 1]}, 7);
}

SOK_TEST(RefusedSpaceIsAnError) {
  const Words words = {"refused", "capacity"};
  CHECK_THROWS(ErrorCode::kOutOfMemory, words, ReservedMemory(size_t{1} << 60, PageSize::kSmall));
  CHECK_THROWS(ErrorCode::kOutOfMemory, words, ReservedMemory(SIZE_MAX, PageSize::kHuge));
}

SOK_TEST(MovesOwnership) {
  ReservedMemory first(100, PageSize::kSmall);
  void* const data = first.data();
  ReservedMemory second(std::move(first));
  CHECK_EQ(second.data(), data);
  CHECK_TRUE(first.data() == nullptr);
  ReservedMemory third;
  third = std::move(second);
  CHECK_EQ(third.data(), data);
}

SOK_TEST(GrowKeepsTheContents) {
  for (const PageSize page_size : {PageSize::kSmall, PageSize::kHuge}) {
    ReservedMemory memory(100, page_size);
    std::strcpy(Bytes(memory), "kept");
    for (const size_t bytes : {size_t{10'000}, kMiB, 3 * kMiB, 30 * kMiB}) {
      memory.Grow(bytes);
      CHECK_EQ(memory.size_bytes(), bytes);
      CHECK_EQ(std::string(Bytes(memory)), "kept");
      CHECK_EQ(int{Bytes(memory)[bytes - 1]}, 0);
      Bytes(memory)[bytes - 1] = 9;
    }
    CHECK_EQ(int{Bytes(memory)[3 * kMiB - 1]}, 9);
    memory.Grow(1);
    CHECK_EQ(memory.size_bytes(), 30 * kMiB);
  }
}

SOK_TEST(RefusedGrowthChangesNothing) {
  ReservedMemory memory(100, PageSize::kSmall);
  Bytes(memory)[0] = 3;
  CHECK_THROWS(ErrorCode::kOutOfMemory, Words{"refused"}, memory.Grow(size_t{1} << 60));
  CHECK_EQ(memory.size_bytes(), size_t{100});
  CHECK_EQ(int{Bytes(memory)[0]}, 3);
}

SOK_TEST(ContentsAreKeptWhenPagesBecomeHuge) {
  ReservedMemory memory(5 * kMiB, PageSize::kHuge);
  memory.UseSmallPages(2 * kMiB);
  for (size_t place = 0; place < 2 * kMiB; place += kMiB / 64) Bytes(memory)[place] = 5;
  memory.UseHugePages(2 * kMiB);
  for (size_t place = 0; place < 2 * kMiB; place += kMiB / 64) {
    CHECK_EQ(int{Bytes(memory)[place]}, 5);
    CHECK_EQ(int{Bytes(memory)[place + 1]}, 0);
  }
}

SOK_TEST(ReleasedPagesReadAsZeros) {
  ReservedMemory memory(3 * kMiB, PageSize::kSmall);
  std::memset(memory.data(), 1, memory.size_bytes());
  memory.Release(kMiB + 1, 2 * kMiB);
  CHECK_EQ(int{Bytes(memory)[kMiB - 1]}, 1);
  CHECK_EQ(int{Bytes(memory)[kMiB + 1]}, 1);  // its page lies partly outside
  CHECK_EQ(int{Bytes(memory)[2 * kMiB - 1]}, 0);
  CHECK_EQ(int{Bytes(memory)[2 * kMiB]}, 1);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
