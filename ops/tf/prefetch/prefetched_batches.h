// SPDX-License-Identifier: Apache-2.0
// Batches whose tensors are made while the previous step runs: one thread puts them, steps take
// them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/tf/base/namespace_tf.h"
#include "ops/tf/base/op_waiter.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

class PrefetchedBatch;

using PrefetchWaiter = OpWaiter<std::shared_ptr<PrefetchedBatch>>;

/// The status kCancelled.
absl::Status PrefetchEnded();

/// The tensors of a batch, in slots that are filled in any order, or the reason of its failure.
class PrefetchedBatch : public std::enable_shared_from_this<PrefetchedBatch> {
 public:
  void Put(int64_t slot, std::vector<tf::Tensor> tensors);
  void Fail(const absl::Status& status);

  /// Wakes when the slot is filled or the batch has failed, with the batch and its status.
  void WaitForSlot(int64_t slot, std::shared_ptr<PrefetchWaiter> waiter);
  /// As above, when `num_slots` slots are filled; or with kCancelled after Cancel.
  void WaitForAll(int64_t num_slots, std::shared_ptr<PrefetchWaiter> waiter);
  void Cancel();

  /// The slot must be filled.
  std::vector<tf::Tensor> tensors(int64_t slot) const;

 private:
  using Waiters = std::vector<std::shared_ptr<PrefetchWaiter>>;
  void Wake(Waiters waiters, const absl::Status& status);

  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<tf::Tensor>> slots_;
  absl::Status status_;
  bool is_cancelled_ = false;
  std::map<int64_t, Waiters> waiting_;  // by slot
  int64_t num_slots_ = 0;               // of the waiter for all
  Waiters waiting_for_all_;
};

/// The batches of a session, in order.
class PrefetchedBatches : public tf::ResourceBase {
 public:
  explicit PrefetchedBatches(int64_t capacity) : capacity_(capacity) {}
  std::string DebugString() const override { return "prefetched batches"; }

  /// A thread makes batches from now on.
  void Start();
  /// The thread has ended; cancels the batch in progress.
  void Close();

  /// Hands out a new batch, which becomes current(), once a step has requested one and fewer than
  /// `capacity` wait to be taken.
  void Begin(std::shared_ptr<PrefetchWaiter> waiter);
  /// The batch in progress; null if there is none.
  std::shared_ptr<PrefetchedBatch> current();
  /// Hands the oldest batch, filled or not, to a step. A step that ends while it waits still
  /// consumes its batch, so that ranks continue with the same ones. kFailedPrecondition without
  /// Start; kOutOfRange after Close once all have been taken.
  void Next(std::shared_ptr<PrefetchWaiter> waiter);

 private:
  void Match(std::unique_lock<std::mutex> lock);

  const int64_t capacity_;
  std::mutex mutex_;
  bool is_started_ = false;
  bool is_closed_ = false;
  bool is_wanted_ = false;                                 // a step has requested a batch
  std::deque<std::shared_ptr<PrefetchWaiter>> beginning_;  // wait for capacity
  std::deque<std::shared_ptr<PrefetchWaiter>> steps_;      // wait for a batch
  std::deque<std::shared_ptr<PrefetchedBatch>> batches_;
  std::shared_ptr<PrefetchedBatch> current_;
};

}  // namespace sok
