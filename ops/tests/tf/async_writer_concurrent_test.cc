// SPDX-License-Identifier: Apache-2.0
// The async writer: all bytes in order, in bounded memory, or the error of the write that failed.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <future>
#include <string>

#include "ops/tests/check.h"
#include "ops/tf/checkpoint/bundle/async_writer.h"

namespace sok {
namespace {

constexpr int kParts = 1000;

/// A different length each time.
std::string Part(int number) {
  return std::string(static_cast<size_t>(number % 17), 'a' + number % 26);
}

void Put(AsyncWriter& writer, const std::string& part) {
  std::copy(part.begin(), part.end(), writer.Buffer(part.size()));
  writer.Put(part.size());
}

SOK_TEST(AllIsWrittenInOrder) {
  std::string expected, written;
  AsyncWriter writer(
      [&](const char* bytes, size_t num_bytes) { written.append(bytes, num_bytes); });
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int i = 0; i < kParts; ++i) {
      expected += Part(i);
      Put(writer, Part(i));
    }
    writer.Finish();
    CHECK_EQ(written, expected);
  }
}

SOK_TEST(AnErrorComesToTheCaller) {
  int num_writes = 0;
  AsyncWriter writer([&](const char*, size_t) {
    if (++num_writes == 3) Throw(ErrorCode::kNoSpace, "the disk is full");
  });
  CHECK_THROWS(ErrorCode::kNoSpace, {"the disk is full"}, {
    for (int i = 0; i < kParts; ++i) Put(writer, Part(i));
  });
  CHECK_THROWS(ErrorCode::kNoSpace, {"the disk is full"}, writer.Buffer(1));
  CHECK_THROWS(ErrorCode::kNoSpace, {"the disk is full"}, writer.Finish());
  CHECK_EQ(num_writes, 3);
}

SOK_TEST(TheEndDropsWhatWaits) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::string written;
    {
      AsyncWriter writer([&](const char* bytes, size_t size) { written.append(bytes, size); });
      for (const char* part : {"first", "second", "third"}) Put(writer, part);
    }
    CHECK_TRUE(std::string("firstsecondthird").rfind(written, 0) == 0);
  }
}

SOK_TEST(TheCallerWaitsForMemoryOnly) {
  std::promise<void> disk;
  std::string written;
  AsyncWriter writer(
      [&, ready = disk.get_future().share()](const char* bytes, size_t size) {
        ready.wait();
        written.append(bytes, size);
      },
      /*most_bytes=*/50);
  for (const char* part : {"0123456789", "abcdefghij", "0123456789", "abcdefghij", "0123456789"})
    Put(writer, part);
  bool is_after_all = false;
  writer.Then([&] { is_after_all = written.size() == 50; });
  auto sixth = std::async(std::launch::async, [&] { Put(writer, "last"); });
  CHECK_TRUE(sixth.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  disk.set_value();
  sixth.get();
  writer.Finish();
  CHECK_TRUE(is_after_all);
  CHECK_EQ(written, std::string("0123456789abcdefghij0123456789abcdefghij0123456789last"));
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
