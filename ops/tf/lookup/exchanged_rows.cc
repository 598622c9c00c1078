// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/lookup/exchanged_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "ops/tf/ranks/collective_handle.h"

namespace sok {

std::vector<Element> WireDtypesOf(tensorflow::OpKernelConstruction* ctx) {
  const auto num_items = static_cast<size_t>(Attribute<int64_t>(ctx, "N"));
  const auto names = Attribute<std::vector<std::string>>(ctx, "wire_dtypes");
  if (names.empty()) return std::vector<Element>(num_items, Element::kFloat32);
  std::vector<Element> wire_dtypes;
  for (const std::string& name : ItemAttributes<std::string>(ctx, "wire_dtypes")) {
    wire_dtypes.push_back(ItemNamed(kElements, "wire_dtype", name).value);
  }
  return wire_dtypes;
}

RowLayout::RowLayout(tensorflow::OpKernelContext* ctx, const OpCall& call, const Group& group,
                     const char* counts_list, const std::vector<int64_t>& dims,
                     const std::vector<Element>& wire_dtypes)
    : op_name_(group.name()),
      wire_dtypes_(wire_dtypes),
      is_in_place_(call.engine().IsHostMemory() &&
                   std::all_of(wire_dtypes.begin(), wire_dtypes.end(),
                               [](Element wire_dtype) { return wire_dtype == Element::kFloat32; })),
      num_rows_(dims.size(), 0),
      runs_(dims.size()),
      kept_runs_(dims.size(), RowRun{}) {
  const int64_t own_rank = CollectiveHandleIn(Input(ctx, "collective"))->coordinator().rank();
  const int64_t num_ranks = group.Vector(counts_list, 0).NumElements();
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    int64_t num_bytes = 0;
    for (int item = 0; item < group.size(); ++item) {
      const auto& counts = group.Vector(counts_list, item);
      const int64_t count = rank < counts.NumElements() ? Data<int64_t>(counts)[rank] : -1;
      if (counts.NumElements() != num_ranks || count < 0) {
        Throw(ErrorCode::kInvalidArgument, op_name_, ": expected one count for each of ", num_ranks,
              " ranks, got ", counts.SummarizeValue(8));
      }
      const auto i = static_cast<size_t>(item);
      const int64_t num_floats = count * dims[i];
      const RowRun run{num_rows_[i] * dims[i], static_cast<size_t>(rank), num_bytes, num_floats};
      num_rows_[i] += count;
      if (is_in_place_ && rank == own_rank) {
        kept_runs_[i] = run;
        continue;
      }
      if (count > 0) runs_[i].push_back(run);
      num_bytes += num_floats * ElementBytes(wire_dtypes_[i]);
    }
    bytes_of_ranks_.push_back(num_bytes);
  }
}

size_t RowLayout::num_floats() const {
  int64_t total = 0;
  for (const std::vector<RowRun>& runs : runs_) {
    for (const RowRun& run : runs) total += run.num_floats;
  }
  for (const RowRun& run : kept_runs_) total += run.num_floats;
  return static_cast<size_t>(total);
}

void RowLayout::CheckNumRows(int item, int64_t num_rows) const {
  if (num_rows == this->num_rows(item)) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": ", num_rows, " rows for ", this->num_rows(item),
        " replies; the batch of a table's owner must divide equally among the ranks");
}

void RowLayout::CheckKept(int item, const RowLayout& sent) const {
  const int64_t got = sent.kept_run(item).num_floats;
  if (got == kept_run(item).num_floats) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": expected ", kept_run(item).num_floats,
        " floats of this rank's own rows, got ", got,
        "; do all ranks run the same layers, on batches of the same size?");
}

void RowLayout::CheckReceived(const ExchangeResult& result) const {
  const auto sum = [](const std::vector<int64_t>& of_ranks) {
    return std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0});
  };
  std::vector<int64_t> received_bytes;
  for (const std::string_view part : result.parts)
    received_bytes.push_back(static_cast<int64_t>(part.size()));
  if (received_bytes == bytes_of_ranks_) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": expected ", sum(bytes_of_ranks_),
        " bytes of rows, got ", sum(received_bytes),
        "; do all ranks run the same layers, on batches of the same size?");
}

}  // namespace sok
