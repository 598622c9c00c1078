// SPDX-License-Identifier: Apache-2.0
// A plane of device memory that grows: ahead of need while there is memory, then as needed.
#include "ops/device/growing_rows.h"

#include "ops/tests/check.h"

namespace sok {
namespace {

/// A device with memory for `limit_bytes`.
struct SmallDevice {
  int64_t limit_bytes;

  class GrowingMemory {
   public:
    GrowingMemory(SmallDevice& device, int64_t) : device_(device) {}
    void* data() const { return nullptr; }
    int64_t size_bytes() const { return size_bytes_; }
    void Reserve(int64_t bytes) {
      if (bytes > device_.limit_bytes) Throw(ErrorCode::kOutOfMemory, "no ", bytes, " bytes");
      size_bytes_ = bytes;
    }
    void Release() { size_bytes_ = 0; }

   private:
    SmallDevice& device_;
    int64_t size_bytes_ = 0;
  };
};

SOK_TEST(GrowsAheadOfNeedUpToTheCapacity) {
  SmallDevice device{1 << 20};
  GrowingRows<SmallDevice> rows(device, 120, 2);
  rows.Reserve(80);
  CHECK_EQ(rows.num_rows(), 80);
  rows.Reserve(81);
  CHECK_EQ(rows.num_rows(), 100);
  rows.Reserve(101);
  CHECK_EQ(rows.num_rows(), 120);
}

SOK_TEST(TakesTheLastMemoryThatThereIs) {
  SmallDevice device{8 * 90};
  GrowingRows<SmallDevice> rows(device, 1000, 2);
  rows.Reserve(80);
  rows.Reserve(85);  // a quarter more does not fit
  CHECK_EQ(rows.num_rows(), 85);
  rows.Reserve(90);
  CHECK_THROWS(ErrorCode::kOutOfMemory, {"no 728 bytes"}, rows.Reserve(91));
  CHECK_EQ(rows.num_rows(), 90);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
