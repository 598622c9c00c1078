// SPDX-License-Identifier: Apache-2.0
// What the ops that move whole tables say to each other.
#ifndef SOK_OPS_TF_RANKS_RANK_COMMUNICATOR_H_
#define SOK_OPS_TF_RANKS_RANK_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/ranks/collective_handle.h"

namespace sok {

/// Exchanges of an op that all ranks run with collectives that meet. They block its thread, and
/// throw when another rank has failed, or the step. Without a collective, on one rank or in a
/// process that no others are connected to, there is nobody to meet.
class RankCommunicator {
 public:
  RankCommunicator(tensorflow::OpKernelContext* ctx, int64_t num_ranks, int64_t rank,
                   std::shared_ptr<const CollectiveHandle> held);

  int64_t num_ranks() const { return num_ranks_; }

  /// Returns when all ranks have come here, which they must within the time of a lookup. From here
  /// on they wait for each other as long as it takes: disks differ.
  void Begin() { Meet(/*is_patient=*/false); }

  /// Before and after an op takes the table's lock. Two ops that need it and run at once might get
  /// it in another order on each rank, and wait for each other for ever: rank 0's order is all's.
  void AwaitTurn() {
    if (rank_ != 0) Meet(/*is_patient=*/true);
  }
  void GiveTurn() {
    if (rank_ == 0) Meet(/*is_patient=*/true);
  }

  /// Sends `data`, by destination rank; send_bytes is [num_ranks]. Gives what came from each rank.
  /// Throws kFailedPrecondition where there is nobody to meet.
  std::vector<std::string> Exchange(std::vector<char> data, std::vector<int64_t> send_bytes);

  /// Returns, when all ranks have come here, what each has to say: what one has done before, all
  /// have done.
  std::vector<std::string> Share(const std::string& text = "");

 private:
  void Meet(bool is_patient);
  std::vector<std::string> Submit(ExchangeRequest request);

  const StepId step_id_;
  const int64_t num_ranks_;
  const int64_t rank_;
  const std::shared_ptr<const CollectiveHandle> held_;  // null where there is nobody to meet
  const CancelWatch watch_;
  int64_t num_exchanges_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_RANKS_RANK_COMMUNICATOR_H_
