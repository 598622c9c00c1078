// SPDX-License-Identifier: Apache-2.0
// What the ops that move whole tables say to each other.
#ifndef SOK_OPS_TF_RANK_MEETING_H_
#define SOK_OPS_TF_RANK_MEETING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/engine/table_options.h"
#include "ops/tf/lookup_ticket.h"

namespace sok {

/// Exchanges of an op that all ranks run under the same name, for the same table. They block its
/// thread, and throw when another rank has failed. On one rank, and in a process that no others are
/// connected to, there is nobody to meet.
class RankMeeting {
 public:
  RankMeeting(tensorflow::OpKernelContext* ctx, const TableOptions& options, bool is_eager);

  int64_t num_ranks() const { return num_ranks_; }

  /// Returns when all ranks have come here, which they must within the time of a lookup. From here
  /// on they wait for each other as long as it takes: disks differ.
  void Begin() { Meet(/*is_patient=*/false); }

  /// Sends `data`, by destination rank; send_bytes is [num_ranks]. Throws kFailedPrecondition where
  /// there is nobody to meet.
  ExchangeResult Exchange(std::vector<char> data, std::vector<int64_t> send_bytes);

  /// Returns when all ranks have come here: what each has done since Begin, all have done.
  void End() { Meet(/*is_patient=*/true); }

 private:
  void Meet(bool is_patient);
  ExchangeResult Submit(ExchangeRequest request);

  const StepId step_id_;
  const int64_t num_ranks_;
  const std::shared_ptr<const HeldTicket> held_;  // null where there is nobody to meet
  int64_t num_exchanges_ = 0;
};

}  // namespace sok

#endif  // SOK_OPS_TF_RANK_MEETING_H_
