// SPDX-License-Identifier: Apache-2.0
// Batches made by one thread, and taken, awaited and abandoned by steps on others.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "ops/tests/check.h"
#include "ops/tf/prefetch/prefetched_batches.h"

namespace sok::testing {
namespace {

namespace tf = tensorflow;

constexpr int kBatches = 200;

struct Outcome {
  absl::Status status;
  std::shared_ptr<PrefetchedBatch> batch;
};

/// Lets a thread wait like an op.
class Waiting {
 public:
  std::shared_ptr<PrefetchWaiter> waiter(tf::CancellationManager* step = nullptr) {
    return PrefetchWaiter::Make(
        step, absl::CancelledError("the step"),
        [this](const absl::Status& status, std::shared_ptr<PrefetchedBatch> batch) {
          const std::lock_guard<std::mutex> lock(mutex_);
          CHECK_TRUE(!outcome_);
          outcome_ = Outcome{status, std::move(batch)};
          changed_.notify_all();
        });
  }
  Outcome Await() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return outcome_.has_value(); });
    return *std::exchange(outcome_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Outcome> outcome_;
};

tf::Tensor Value(int64_t value) {
  tf::Tensor tensor(tf::DT_INT64, {});
  tensor.scalar<int64_t>()() = value;
  return tensor;
}

/// Makes batches, with i * 10 + s in slot s of batch i, until they are closed. Multiples of
/// `failing` fail after their first slot; 0: none.
void MakeBatches(PrefetchedBatches& batches, int num_slots, int failing) {
  for (int64_t number = 0;; ++number) {
    Waiting waiting;
    batches.Begin(waiting.waiter());
    const Outcome begun = waiting.Await();
    if (!begun.status.ok()) return;
    std::vector<std::thread> fillers;
    const bool fails = failing > 0 && number % failing == 0;
    for (int slot = 0; slot < (fails ? 1 : num_slots); ++slot) {
      fillers.emplace_back([&, slot] { begun.batch->Put(slot, {Value(number * 10 + slot)}); });
    }
    Waiting for_all;
    if (fails) {
      begun.batch->Fail(absl::DataLossError("batch"));
    } else {
      begun.batch->WaitForAll(num_slots, for_all.waiter());
      for_all.Await();
    }
    for (std::thread& filler : fillers) filler.join();
  }
}

SOK_TEST(StepsTakeBatchesInOrder) {
  for (const int64_t capacity : {1, 3}) {
    auto* batches = new PrefetchedBatches(capacity);
    const tf::core::ScopedUnref kept(batches);
    batches->Start();
    std::thread maker([&] { MakeBatches(*batches, 3, 7); });
    for (int64_t number = 0; number < kBatches; ++number) {
      Waiting next;
      batches->Next(next.waiter());
      const Outcome taken = next.Await();
      CHECK_TRUE(taken.status.ok());
      Waiting for_slots[3];
      for (int slot = 0; slot < 3; ++slot) taken.batch->WaitForSlot(slot, for_slots[slot].waiter());
      for (int slot = 0; slot < 3; ++slot) {
        const Outcome filled = for_slots[slot].Await();
        if (number % 7 == 0) {  // slots filled before the failure may have arrived
          CHECK_TRUE(slot == 0 || filled.status.message() == "batch");
        } else {
          CHECK_TRUE(filled.status.ok());
          const auto tensors = taken.batch->tensors(slot);
          CHECK_EQ(tensors.front().scalar<int64_t>()(), number * 10 + slot);
        }
      }
    }
    batches->Close();
    maker.join();
  }
}

/// A step that ends while it waits consumes its batch, so that ranks continue with the same ones.
SOK_TEST(StepsAreCancelledWhileTheyWait) {
  auto* batches = new PrefetchedBatches(1);
  const tf::core::ScopedUnref kept(batches);
  batches->Start();
  std::thread maker([&] { MakeBatches(*batches, 1, 0); });
  int num_taken = 0;
  for (int64_t number = 0; number < kBatches; ++number) {
    tf::CancellationManager step;
    Waiting next;
    std::thread canceller([&] { step.StartCancel(); });
    batches->Next(next.waiter(&step));
    const Outcome outcome = next.Await();
    canceller.join();
    if (!outcome.status.ok()) {
      CHECK_EQ(outcome.status.message(), "the step");
      continue;
    }
    ++num_taken;
    Waiting for_slot;
    outcome.batch->WaitForSlot(0, for_slot.waiter());
    CHECK_TRUE(for_slot.Await().status.ok());
    CHECK_EQ(outcome.batch->tensors(0).front().scalar<int64_t>()(), number * 10);
  }
  CHECK_TRUE(num_taken <= kBatches);
  batches->Close();
  maker.join();
}

SOK_TEST(StepsThatWaitEndWhenTheBatchesAreClosed) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    auto* batches = new PrefetchedBatches(1);
    const tf::core::ScopedUnref kept(batches);
    Waiting early;
    batches->Next(early.waiter());
    CHECK_TRUE(absl::IsFailedPrecondition(early.Await().status));
    batches->Start();
    std::thread maker([&] { MakeBatches(*batches, 2, 0); });
    std::vector<std::thread> steps;
    std::atomic<int> num_ended{0};
    for (int thread = 0; thread < 3; ++thread) {
      steps.emplace_back([&] {
        while (true) {
          Waiting next;
          batches->Next(next.waiter());
          if (absl::IsOutOfRange(next.Await().status)) break;
        }
        ++num_ended;
      });
    }
    batches->Close();
    for (std::thread& step : steps) step.join();
    maker.join();
    CHECK_EQ(num_ended, 3);
  }
}

}  // namespace
}  // namespace sok::testing

SOK_TEST_MAIN()
