// SPDX-License-Identifier: Apache-2.0
// Batches whose tensors are made while the step before runs: what one thread puts, steps take.
#ifndef SOK_OPS_TF_AHEAD_BATCHES_H_
#define SOK_OPS_TF_AHEAD_BATCHES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/op_waiter.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace sok {

class AheadBatch;

using AheadWaiter = OpWaiter<std::shared_ptr<AheadBatch>>;

/// kCancelled.
absl::Status MadeAheadNoMore();

/// The tensors of a batch, in slots that are filled in any order, or why it has failed.
class AheadBatch : public std::enable_shared_from_this<AheadBatch> {
 public:
  void Put(int64_t slot, std::vector<tensorflow::Tensor> tensors);
  void Fail(const absl::Status& status);

  /// Wakes when the slot is filled, or the batch has failed, with the batch and its status.
  void WaitForSlot(int64_t slot, std::shared_ptr<AheadWaiter> waiter);
  /// As above, when as many slots are filled; or kCancelled after Cancel.
  void WaitForAll(int64_t num_slots, std::shared_ptr<AheadWaiter> waiter);
  void Cancel();

  /// Of a slot that is filled.
  std::vector<tensorflow::Tensor> tensors(int64_t slot) const;

 private:
  using Waiters = std::vector<std::shared_ptr<AheadWaiter>>;
  void Wake(Waiters waiters, const absl::Status& status);

  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<tensorflow::Tensor>> slots_;
  absl::Status status_;
  bool is_cancelled_ = false;
  std::map<int64_t, Waiters> waiting_;  // by slot
  int64_t num_slots_ = 0;               // of the one that waits for all
  Waiters waiting_for_all_;
};

/// The batches of a session, in their order.
class AheadBatches : public tensorflow::ResourceBase {
 public:
  explicit AheadBatches(int64_t capacity) : capacity_(capacity) {}
  std::string DebugString() const override { return "batches that are made ahead"; }

  /// From now on there is somebody who begins batches.
  void Start();
  /// Nobody does any more; what is being made is cancelled.
  void Close();

  /// Gives a new batch, current() from then on, when a step has asked for one and fewer than
  /// `capacity` wait to be taken.
  void Begin(std::shared_ptr<AheadWaiter> waiter);
  /// The batch that is being made; null: there is none.
  std::shared_ptr<AheadBatch> current();
  /// Gives the oldest batch to a step, filled or not. A step that ends while it waits has had its
  /// batch all the same: ranks go on with the same ones. kFailedPrecondition without Start;
  /// kOutOfRange after Close when all have been taken.
  void Next(std::shared_ptr<AheadWaiter> waiter);

 private:
  void Match(std::unique_lock<std::mutex> lock);

  const int64_t capacity_;
  std::mutex mutex_;
  bool is_started_ = false;
  bool is_closed_ = false;
  bool is_wanted_ = false;                              // a step has asked
  std::deque<std::shared_ptr<AheadWaiter>> beginning_;  // wait for room
  std::deque<std::shared_ptr<AheadWaiter>> steps_;      // wait for a batch
  std::deque<std::shared_ptr<AheadBatch>> batches_;
  std::shared_ptr<AheadBatch> current_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_AHEAD_BATCHES_H_
