// SPDX-License-Identifier: Apache-2.0
// A device table with scarce memory: a call's needs come before those of later calls, and a call
// that is refused memory changes nothing.
#include <map>
#include <numeric>

#include "ops/device/device_engine.h"
#include "ops/tests/check.h"
#include "ops/tests/host_queue/host_queue.h"

namespace sok {
namespace {

using Ids = std::vector<int64_t>;

/// A queue on a device with memory for `limit_bytes`, which can also refuse a single request.
class ScarceQueue : public HostQueue {
 public:
  static constexpr int64_t kNever = -1;

  ScarceQueue() : HostQueue(SerialExecutor()) {}

  int64_t limit_bytes = INT64_MAX;
  int64_t requests_left = kNever;  // until the refused one

  /// As HostQueue's, within limit_bytes.
  class GrowingMemory {
   public:
    GrowingMemory(ScarceQueue& queue, int64_t limit_bytes)
        : queue_(queue), memory_(queue, limit_bytes) {}
    void* data() const { return memory_.data(); }
    int64_t size_bytes() const { return memory_.size_bytes(); }
    void Reserve(int64_t bytes) {
      if (bytes <= size_bytes()) return;
      queue_.Take(bytes - size_bytes());
      memory_.Reserve(bytes);
    }
    void Shrink(int64_t bytes) {
      queue_.used_bytes_ -= std::max<int64_t>(size_bytes() - bytes, 0);
      memory_.Shrink(bytes);
    }
    void Release() { Shrink(0); }

   private:
    ScarceQueue& queue_;
    HostQueue::GrowingMemory memory_;
  };

  template <typename Value>
  class LateValue : public HostQueue::LateValue<Value> {
   public:
    explicit LateValue(ScarceQueue& queue) : HostQueue::LateValue<Value>(queue) { queue.Take(0); }
  };

  void* Allocate(int64_t bytes) {
    Take(bytes);
    void* memory = HostQueue::Allocate(bytes);
    bytes_of_[memory] = bytes;
    return memory;
  }
  void Free(void* memory) noexcept {
    used_bytes_ -= bytes_of_[memory];
    HostQueue::Free(memory);
  }

 private:
  void Take(int64_t bytes) {
    const bool is_refused = requests_left == 0;
    if (requests_left >= 0) --requests_left;
    if (is_refused || bytes > limit_bytes - used_bytes_) {
      Throw(ErrorCode::kOutOfMemory, "no ", bytes, " bytes");
    }
    used_bytes_ += bytes;
  }

  int64_t used_bytes_ = 0;
  std::map<void*, int64_t> bytes_of_;
};

constexpr int64_t kDim = 4;
constexpr int64_t kCapacity = 1'000'000;

/// A table with the planes of its rows and of one slot, of the same width.
struct ScarceTable {
  static TableOptions Options() {
    TableOptions options;
    options.name = "users";
    options.dim = kDim;
    options.capacity = kCapacity;
    return options;
  }

  Ids FindOrInsert(const Ids& keys) {
    Ids row_ids(keys.size());
    table.FindOrInsert(*call, {static_cast<int64_t>(keys.size()), keys.data()}, planes,
                       row_ids.data());
    return row_ids;
  }
  Ids Find(const Ids& keys) {
    Ids row_ids(keys.size());
    table.Find(*call, static_cast<int64_t>(keys.size()), keys.data(), row_ids.data());
    return row_ids;
  }
  int64_t NumKeys() { return table.Size(*call).num_keys; }

  using State = DeviceState<ScarceQueue>;
  std::shared_ptr<State> state = std::make_shared<State>();
  ScarceQueue& queue = state->queue;
  DeviceEngine<ScarceQueue> engine{state};
  std::unique_ptr<Call> call = engine.MakeCall(SerialExecutor(), nullptr);
  DeviceTable<ScarceQueue> table{state, Options()};
  DevicePlane<ScarceQueue> rows{state, {kCapacity, kDim}};
  DevicePlane<ScarceQueue> slot{state, {kCapacity, kDim}};
  const Planes planes{&rows, {{&slot, 0.5f}}};
};

Ids Range(int64_t begin, int64_t end) {
  Ids keys(static_cast<size_t>(end - begin));
  std::iota(keys.begin(), keys.end(), begin);
  return keys;
}

/// Whether a table on a device with `limit_bytes` accepts a first batch.
bool Fits(int64_t limit_bytes, int64_t batch, int64_t* scratch_bytes) {
  ScarceTable scarce;
  scarce.queue.limit_bytes = limit_bytes;
  try {
    scarce.FindOrInsert(Range(0, batch));
  } catch (const Error& error) {
    CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
    CHECK_EQ(scarce.NumKeys(), 0);
    return false;
  }
  *scratch_bytes = scarce.state->scratch.size_bytes();
  return true;
}

SOK_TEST(MemoryForOneBatchIsEnough) {
  constexpr int64_t kRowBytes = 2 * kDim * sizeof(float);
  constexpr int64_t kKeyBytes = sizeof(DeviceBucket) / DeviceBucket::kSlots * 100 / 80 + 1;
  for (const int64_t batch : {500, 5000, 50'000}) {
    int64_t scratch_bytes = 0;
    int64_t too_few = 0;
    int64_t enough = 1 << 30;
    while (enough - too_few > 1) {
      const int64_t middle = (too_few + enough) / 2;
      (Fits(middle, batch, &scratch_bytes) ? enough : too_few) = middle;
    }
    CHECK_TRUE(Fits(enough, batch, &scratch_bytes));
    constexpr int64_t kOfAnEmptyTable = 6000;
    CHECK_TRUE(enough <= batch * (kRowBytes + kKeyBytes) + scratch_bytes + kOfAnEmptyTable);
  }
}

SOK_TEST(ATableFillsTheMemoryThatThereIs) {
  ScarceTable scarce;
  scarce.queue.limit_bytes = 4 << 20;
  constexpr int64_t kBatch = 1000;
  int64_t num_inserted = 0;
  for (bool is_refused = false; !is_refused; num_inserted += is_refused ? 0 : kBatch) {
    try {
      CHECK_EQ(scarce.FindOrInsert(Range(num_inserted, num_inserted + kBatch)).front(),
               num_inserted);
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
      is_refused = true;
    }
  }
  CHECK_EQ(scarce.NumKeys(), num_inserted);
  // Keys with two rows of 16 bytes, and an index that exists twice while it grows.
  CHECK_TRUE(num_inserted * (32 + 2 * 16) > scarce.queue.limit_bytes * 3 / 4);
  CHECK_TRUE(scarce.Find({num_inserted - 1, num_inserted}) == (Ids{num_inserted - 1, kNoRow}));
}

SOK_TEST(KnownKeysNeedNoMemory) {
  ScarceTable scarce;
  const Ids keys = Range(0, 5000);
  scarce.FindOrInsert(keys);
  scarce.FindOrInsert(keys);  // the scratch memory is complete
  scarce.queue.limit_bytes = 0;
  for (int time = 0; time < 9; ++time) CHECK_TRUE(scarce.FindOrInsert(keys) == keys);
}

SOK_TEST(RowsOfErasedKeysNeedNoMemory) {
  ScarceTable scarce;
  scarce.table.Reserve(*scarce.call, 1000, scarce.planes);
  const Ids keys = Range(0, 1000);
  const Ids others = Range(1000, 2000);
  scarce.FindOrInsert(keys);
  for (int time = 0; time < 3; ++time) {
    CHECK_EQ(scarce.table.Erase(*scarce.call, 1000, (time % 2 == 0 ? keys : others).data()), 1000);
    scarce.FindOrInsert(time % 2 == 0 ? others : keys);
  }
  CHECK_EQ(scarce.rows.num_rows(), 1000);
}

/// The n-th request of a call is refused, for every n: nothing has changed, and the next call
/// works.
SOK_TEST(ARefusedRequestChangesNothing) {
  const Ids present = Range(0, 100);
  const Ids more = Range(50, 2000);
  bool is_refused = true;
  int64_t num_refused = 0;
  for (int64_t n = 0; is_refused; ++n) {
    ScarceTable scarce;
    scarce.FindOrInsert(present);
    scarce.queue.requests_left = n;
    try {
      CHECK_TRUE(scarce.FindOrInsert(more) == more);
      is_refused = scarce.queue.requests_left < 0;  // one was refused, but the call did not need it
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
      CHECK_EQ(scarce.NumKeys(), 100);
      CHECK_TRUE(scarce.Find({99, 100}) == (Ids{99, kNoRow}));
      ++num_refused;
    }
    scarce.queue.requests_left = ScarceQueue::kNever;
    CHECK_TRUE(scarce.FindOrInsert(more) == more);
  }
  CHECK_TRUE(num_refused > 3);
}

SOK_TEST(WhatIsReadLateIsAllocatedWithTheTable) {
  const auto state = std::make_shared<DeviceState<ScarceQueue>>();
  int64_t num_requests = 0;
  for (bool is_refused = true; is_refused; ++num_requests) {
    state->queue.requests_left = num_requests;
    is_refused = false;
    try {
      const DeviceTable<ScarceQueue> table(state, ScarceTable::Options());
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kOutOfMemory);
      is_refused = true;
    }
  }
  CHECK_EQ(num_requests - 1, 3);  // counters, their copy, the index
}

}  // namespace
}  // namespace sok

SOK_TEST_MAIN()
