// SPDX-License-Identifier: Apache-2.0
// The layout of a group's rows in the bytes that ranks exchange.
#pragma once

#include <cstddef>
#include <cstdint>
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
  int64_t first_byte;  // in the bytes to or from that rank
  int64_t num_floats;
  Element element;  // as sent
};

/// How the items of a group are sent.
struct WireDtypes {
  /// From the attribute `wire_dtypes`, one per item; if empty, all are float32.
  explicit WireDtypes(tf::OpKernelConstruction* ctx);
  /// As above, with the attribute `row_dtypes`, which likewise may be empty.
  static WireDtypes WithRows(tf::OpKernelConstruction* ctx);

  /// Of an item's rows, which lose nothing as the table's element, or of sums of rows.
  Element Of(size_t item, bool are_sums) const {
    return sums[item] != Element::kFloat32 || are_sums ? sums[item] : rows[item];
  }

  std::vector<Element> sums;  // and gradients
  std::vector<Element> rows;  // the element of the table
};

/// Ordered by rank, then by item.
class RowLayout {
 public:
  /// The input `counts_list` has the numbers of rows of each item to or from each rank,
  /// [num_ranks], perhaps followed by how many of them are sums, all or none; on the host. Throws
  /// kInvalidArgument for impossible counts.
  RowLayout(tf::OpKernelContext* ctx, const OpCall& call, const Group& group,
            const char* counts_list, const std::vector<int64_t>& dims,
            const WireDtypes& wire_dtypes);

  /// Whether all rows are sent from where they are.
  bool is_in_place() const { return is_in_place_; }

  const std::vector<int64_t>& bytes_of_ranks() const { return bytes_of_ranks_; }
  size_t num_floats() const;  // of all items
  int64_t num_rows(int item) const { return num_rows_[static_cast<size_t>(item)]; }
  const std::vector<RowRun>& runs(int item) const { return runs_[static_cast<size_t>(item)]; }

  /// Throws kInvalidArgument if `num_rows` of an item does not match the counts.
  void CheckNumRows(int item, int64_t num_rows) const;
  /// Throws kInvalidArgument if the sizes received do not match.
  void CheckReceived(const ExchangeResult& result) const;

 private:
  const std::string op_name_;
  bool is_in_place_ = true;
  std::vector<int64_t> bytes_of_ranks_;
  std::vector<int64_t> num_rows_;
  std::vector<std::vector<RowRun>> runs_;
};

}  // namespace sok
