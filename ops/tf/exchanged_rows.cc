// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/exchanged_rows.h"

namespace sok {
namespace {

/// A run that goes on where the one before it ends, on both sides, is one with it: each is a copy.
void Append(const RowRun& run, std::vector<RowRun>* runs) {
  if (!runs->empty()) {
    RowRun& last = runs->back();
    const int64_t last_bytes = last.num_floats * static_cast<int64_t>(sizeof(float));
    if (last.first_float + last.num_floats == run.first_float &&
        last.first_byte + last_bytes == run.first_byte) {
      last.num_floats += run.num_floats;
      return;
    }
  }
  runs->push_back(run);
}

}  // namespace

RowLayout::RowLayout(const std::string& op_name, const Group& group, int counts_list,
                     const std::vector<int64_t>& dims)
    : op_name_(op_name), num_rows_(dims.size(), 0), runs_(dims.size()) {
  const int64_t num_ranks = group.Vector(counts_list, 0, "counts").NumElements();
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    const int64_t bytes_before = total_bytes_;
    for (int item = 0; item < group.size(); ++item) {
      const auto& counts = group.Vector(counts_list, item, "counts");
      const int64_t count = rank < counts.NumElements() ? Data<int64_t>(counts)[rank] : -1;
      if (counts.NumElements() != num_ranks || count < 0) {
        Throw(ErrorCode::kInvalidArgument, op_name, ": one number of rows for each of ", num_ranks,
              " ranks expected, got ", counts.SummarizeValue(8));
      }
      const auto i = static_cast<size_t>(item);
      const int64_t num_floats = count * dims[i];
      if (count > 0) Append({num_rows_[i] * dims[i], total_bytes_, num_floats}, &runs_[i]);
      num_rows_[i] += count;
      total_bytes_ += num_floats * static_cast<int64_t>(sizeof(float));
    }
    bytes_of_ranks_.push_back(total_bytes_ - bytes_before);
  }
}

void RowLayout::CheckNumRows(int item, int64_t num_rows) const {
  if (num_rows == this->num_rows(item)) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": ", num_rows, " rows for ", this->num_rows(item),
        " answers");
}

void RowLayout::CheckReceived(const ExchangeResult& result) const {
  if (result.received_bytes == bytes_of_ranks_) return;
  Throw(ErrorCode::kInvalidArgument, op_name_, ": ", total_bytes_, " bytes of rows expected, got ",
        result.data.size(), "; do all ranks run the same layers?");
}

}  // namespace sok
