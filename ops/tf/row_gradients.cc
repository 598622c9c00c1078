// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/row_gradients.h"

#include "ops/lookup/distinct.h"
#include "ops/lookup/merge_gradients.h"
#include "ops/tf/border.h"
#include "ops/tf/lookup_checks.h"

namespace sok {

RowGradients::RowGradients(Executor& executor, const Table& table, const tensorflow::Tensor& values,
                           const tensorflow::Tensor& row_ids, bool row_ids_are_distinct)
    : count_(row_ids.NumElements()),
      row_ids_(Data<int64_t>(row_ids)),
      values_(Data<float>(values)) {
  Check(table, values);
  if (!row_ids_are_distinct) MergeRepeats(executor, table.options().dim);
}

void RowGradients::Check(const Table& table, const tensorflow::Tensor& values) const {
  CheckRowGradients(table.options(), values, count_);
  const int64_t num_rows = table.num_rows();
  for (int64_t i = 0; i < count_; ++i) {
    if (row_ids_[i] < 0 || row_ids_[i] >= num_rows) {
      ThrowNoSuchRow(table.options(), row_ids_[i], num_rows);
    }
  }
}

void RowGradients::MergeRepeats(Executor& executor, int64_t dim) {
  std::vector<int32_t> inverse(static_cast<size_t>(count_));
  merged_row_ids_.resize(static_cast<size_t>(count_));
  Bags bags;
  bags.num_keys = count_;
  bags.num_bags = count_;
  bags.num_distinct =
      Distinct<int64_t>(executor, count_, row_ids_, merged_row_ids_.data(), inverse.data());
  if (bags.num_distinct == count_) return;
  bags.inverse = inverse.data();
  merged_values_.resize(static_cast<size_t>(bags.num_distinct * dim));
  MergeGradients(executor, bags, dim, values_, merged_values_.data());
  count_ = bags.num_distinct;
  row_ids_ = merged_row_ids_.data();
  values_ = merged_values_.data();
}

}  // namespace sok
