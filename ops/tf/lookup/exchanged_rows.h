// SPDX-License-Identifier: Apache-2.0
// Where the rows of a group of lookups stand in the bytes that ranks send each other.
#ifndef SOK_OPS_TF_LOOKUP_EXCHANGED_ROWS_H_
#define SOK_OPS_TF_LOOKUP_EXCHANGED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/exchange/payload/wire_format.h"
#include "ops/exchange/rendezvous/coordinator.h"
#include "ops/tf/base/group.h"

namespace sok {

/// A run of one item's rows in the bytes of one rank.
struct RowRun {
  int64_t first_float;  // in the item's rows
  size_t rank;
  int64_t first_byte;  // in what goes to that rank, or comes from it
  int64_t num_floats;
};

/// The attribute `wire_dtypes`, one for each item of a group; none: all float32.
std::vector<WireDtype> WireDtypesOf(tensorflow::OpKernelConstruction* ctx);

/// This rank, if an op has what it sends itself in the host's memory, as it is: then it takes it
/// from there, and it is no part of the request.
std::optional<size_t> RankThatKeeps(tensorflow::OpKernelContext* ctx, const OpCall& call,
                                    const std::vector<WireDtype>& wire_dtypes);

/// By rank, then by item.
class RowLayout {
 public:
  /// The input `counts_list` says how many rows of each item go to, or come
  /// from, each rank: [num_ranks], on the host. Those of rank `kept` do not travel.
  /// kInvalidArgument when they cannot be such.
  RowLayout(const std::string& op_name, const Group& group, const char* counts_list,
            const std::vector<int64_t>& dims, const std::vector<WireDtype>& wire_dtypes,
            std::optional<size_t> kept);

  const std::vector<int64_t>& bytes_of_ranks() const { return bytes_of_ranks_; }
  int64_t total_bytes() const { return total_bytes_; }
  size_t num_floats() const;  // of all items, with those that do not travel
  /// Where a run is in the bytes of all ranks, one after the other.
  int64_t PlaceOf(const RowRun& run) const { return begin_of_ranks_[run.rank] + run.first_byte; }
  WireDtype wire_dtype(int item) const { return wire_dtypes_[static_cast<size_t>(item)]; }
  int64_t num_rows(int item) const { return num_rows_[static_cast<size_t>(item)]; }
  const std::vector<RowRun>& runs(int item) const { return runs_[static_cast<size_t>(item)]; }
  /// Where those that do not travel are in an item's rows; none: an empty run.
  const RowRun& kept_run(int item) const { return kept_runs_[static_cast<size_t>(item)]; }

  /// kInvalidArgument when `num_rows` of an item is another number than that of the counts.
  void CheckNumRows(int item, int64_t num_rows) const;
  /// kInvalidArgument when this rank keeps another number of an item's rows than `sent` has.
  void CheckKept(int item, const RowLayout& sent) const;
  /// kInvalidArgument when other bytes than these were received.
  void CheckReceived(const ExchangeResult& result) const;

 private:
  const std::string op_name_;
  const std::vector<WireDtype> wire_dtypes_;
  std::vector<int64_t> bytes_of_ranks_;
  std::vector<int64_t> begin_of_ranks_;
  int64_t total_bytes_ = 0;
  std::vector<int64_t> num_rows_;
  std::vector<std::vector<RowRun>> runs_;
  std::vector<RowRun> kept_runs_;
};

}  // namespace sok

#endif  // SOK_OPS_TF_LOOKUP_EXCHANGED_ROWS_H_
