// SPDX-License-Identifier: Apache-2.0
// Communication between the ranks' instances of an op that moves whole tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/ranks/collective_handle.h"

namespace sok {

/// Exchanges of an op that all ranks run with matching collectives. They block its thread, and
/// throw if another rank or the step has failed. Without a collective, on one rank or in an
/// unconnected process, there are no other ranks.
class RankCommunicator {
 public:
  RankCommunicator(tf::OpKernelContext* ctx, std::shared_ptr<const CollectiveHandle> handle);

  int64_t num_ranks() const { return handle_ ? handle_->coordinator().num_ranks() : 1; }
  int64_t rank() const { return handle_ ? handle_->coordinator().rank() : 0; }
  bool is_connected() const { return handle_ != nullptr; }

  /// Returns when all ranks have called it, within the time limit of a lookup. From then on they
  /// wait for each other without a limit, as disks differ.
  void Begin() { Barrier(/*is_patient=*/false); }

  /// Call before and after the op takes the table's lock. Two concurrent ops could take it in
  /// different orders on different ranks and deadlock: rank 0's order applies to all.
  void AwaitTurn() {
    if (rank() != 0) Barrier(/*is_patient=*/true);
  }
  void GiveTurn() {
    if (rank() == 0) Barrier(/*is_patient=*/true);
  }

  /// Throws kFailedPrecondition without the other ranks of a table that has `num_ranks`.
  void CheckConnects(int64_t num_ranks) const;

  /// Sends each rank its text, [num_ranks]. Returns the text from each rank. Only with other ranks.
  std::vector<std::string> Exchange(std::vector<std::string> texts);

  /// Returns the texts of all ranks once all have called it: whatever one has done before, all have
  /// done.
  std::vector<std::string> Share(const std::string& text = "");
  /// As Share, any number of texts of each rank. Returns those by rank.
  std::vector<std::vector<std::string>> ShareTexts(const std::vector<std::string>& texts);
  std::vector<int64_t> ShareNumber(int64_t number);
  /// As Share; returns whether it is true on any rank.
  bool ShareAny(bool is_true);

 private:
  void Barrier(bool is_patient);
  std::vector<std::string> Submit(Outgoing outgoing, bool is_patient);

  const StepId step_id_;
  const std::shared_ptr<const CollectiveHandle> handle_;  // null without other ranks
  const CancelWatch watch_;
  int64_t num_exchanges_ = 0;
};

}  // namespace sok
