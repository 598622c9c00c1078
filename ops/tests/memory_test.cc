// SPDX-License-Identifier: Apache-2.0
// ReservedMemory: zeros, growth that keeps the contents, pages given back, refusals.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <utility>

#include "ops/base/reserved_memory.h"
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

/// Not memory or a limit on it: the process has as many mappings as it may have.
SOK_TEST(SaysThatThereAreTooManyMappings) {
  size_t most_mappings = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> most_mappings;
  if (most_mappings == 0 || most_mappings > 300000) return;  // it would take long to get there
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t num_pages = 2 * most_mappings;
  void* const pages = mmap(nullptr, num_pages * page_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (size_t page = 0; page < num_pages; page += 2) {  // each becomes a mapping of its own
    if (mprotect(static_cast<char*>(pages) + page * page_bytes, 1, PROT_READ) != 0) break;
  }
  std::string message;
  try {
    std::vector<ReservedMemory> memories;
    for (int i = 0; i < 100; ++i) memories.emplace_back(kMiB, PageSize::kSmall);
  } catch (const Error& error) {
    message = error.what();
  }
  munmap(pages, num_pages * page_bytes);
  for (const std::string word : {"refused", "vm.max_map_count allows", "sysctl -w"})
    CHECK_TRUE(message.find(word) != std::string::npos);
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
