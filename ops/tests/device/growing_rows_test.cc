// SPDX-License-Identifier: Apache-2.0
// A growing plane of device memory: as needed, and ahead of need if there is memory.
#include "ops/device/memory/growing_rows.h"

#include "ops/tests/check.h"

namespace sok {
namespace {

/// A device with `free_bytes` left.
struct SmallDevice {
  int64_t free_bytes;
  int64_t filled_bytes = 0;

  void FillBytes(void*, int, int64_t bytes) { filled_bytes += bytes; }

  class GrowingMemory {
   public:
    GrowingMemory(SmallDevice& device, int64_t) : device_(device) {}
    void* data() const { return nullptr; }
    int64_t size_bytes() const { return size_bytes_; }
    void Reserve(int64_t bytes) {
      if (bytes > size_bytes_) Change(bytes);
    }
    void Shrink(int64_t bytes) {
      if (bytes < size_bytes_) Change(bytes);
    }

   private:
    void Change(int64_t bytes) {
      const int64_t more = bytes - size_bytes_;
      if (more > device_.free_bytes) Throw(ErrorCode::kOutOfMemory, "no ", more, " bytes");
      device_.free_bytes -= more;
      size_bytes_ = bytes;
    }

    SmallDevice& device_;
    int64_t size_bytes_ = 0;
  };
};

using Rows = GrowingRows<SmallDevice>;
using Planes = DevicePlanes<SmallDevice>;

SOK_TEST(GrowsAheadOfNeedUpToTheCapacity) {
  SmallDevice device{1 << 20};
  Rows rows(device, 120, 2);
  const Planes planes{&rows, {}};
  planes.Reserve(80);
  CHECK_EQ(rows.num_rows(), 80);
  CHECK_EQ(device.filled_bytes, 80 * 8);
  planes.ReserveAhead(70, 120);  // a quarter more
  CHECK_EQ(rows.num_rows(), 100);
  planes.ReserveAhead(110, 120);
  CHECK_EQ(rows.num_rows(), 120);
  planes.ReserveAhead(1000, 120);
  CHECK_EQ(rows.num_rows(), 120);
}

SOK_TEST(TakesTheLastMemoryThatThereIs) {
  SmallDevice device{8 * 90};
  Rows rows(device, 1000, 2);
  const Planes planes{&rows, {}};
  planes.Reserve(80);
  planes.ReserveAhead(80, 1000);  // 20 more do not fit, 5 do
  CHECK_EQ(rows.num_rows(), 85);
  planes.Reserve(90);
  planes.ReserveAhead(200, 1000);
  CHECK_THROWS(ErrorCode::kOutOfMemory, {"no 8 bytes"}, planes.Reserve(91));
  CHECK_EQ(rows.num_rows(), 90);
}

/// If the second plane is refused memory, the first one returns its own, unfilled: a GPU may fill
/// it later than it is returned.
SOK_TEST(PlanesGrowTogetherOrNotAtAll) {
  SmallDevice device{8 * 100 + 4 * 100};
  Rows rows(device, 1000, 2);
  Rows slot(device, 1000, 1);
  const Planes planes{&rows, {{&slot, 0.0f}}};
  planes.Reserve(60);
  CHECK_THROWS(ErrorCode::kOutOfMemory, {"no "}, planes.Reserve(110));
  CHECK_EQ(rows.num_rows(), 60);
  CHECK_EQ(slot.num_rows(), 60);
  CHECK_EQ(device.filled_bytes, 60 * (8 + 4));
  planes.Reserve(100);
  CHECK_EQ(device.filled_bytes, 100 * (8 + 4));
  CHECK_EQ(planes.RoomForRows(1000), 100);
  CHECK_EQ(device.free_bytes, 0);
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
