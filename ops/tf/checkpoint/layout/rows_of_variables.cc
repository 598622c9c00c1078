// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/rows_of_variables.h"

#include <algorithm>

#include "ops/tf/base/border.h"

namespace sok {

namespace tf = tensorflow;

RowsOfVariables::RowsOfVariables(tf::OpKernelContext* ctx, const std::vector<int64_t>& widths,
                                 int64_t most_rows)
    : widths_(widths) {
  tf::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  const tf::TensorShape of_rows({widths.empty() ? 0 : most_rows});
  ThrowIfError(ctx->allocate_temp(tf::DT_INT64, of_rows, &row_ids_, on_host));
  for (const int64_t width : widths) {
    rows_.emplace_back();
    ThrowIfError(ctx->allocate_temp(tf::DT_FLOAT, tf::TensorShape({most_rows, width}),
                                    &rows_.back(), on_host));
  }
}

void RowsOfVariables::Place(int64_t count, const int64_t* row_ids, bool may_repeat) {
  int64_t* known = Data<int64_t>(row_ids_);
  places_.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const auto row = static_cast<size_t>(row_ids[i]);
    int64_t place = num_rows_;
    if (may_repeat) {
      Index(row);
      if (place_of_row_[row] >= 0) place = place_of_row_[row];
      place_of_row_[row] = place;
    }
    if (place == num_rows_) ++num_rows_;
    known[place] = row_ids[i];
    places_[static_cast<size_t>(i)] = place;
  }
}

/// Makes place_of_row_ cover the rows added so far, and large enough for `row`.
void RowsOfVariables::Index(size_t row) {
  const int64_t* known = Data<int64_t>(row_ids_);
  if (place_of_row_.empty()) {
    for (int64_t place = 0; place < num_rows_; ++place) {
      const auto held = static_cast<size_t>(known[place]);
      if (held >= place_of_row_.size()) place_of_row_.resize(held + held / 2 + 1, -1);
      place_of_row_[held] = place;
    }
  }
  if (row >= place_of_row_.size()) place_of_row_.resize(row + row / 2 + 1, -1);
}

void RowsOfVariables::Put(size_t variable, const float* rows) {
  const int64_t width = widths_[variable];
  float* known = Data<float>(rows_[variable]);
  for (const int64_t place : places_) {
    std::copy_n(rows, width, known + place * width);
    rows += width;
  }
}

/// Moves the last place into each freed one.
void RowsOfVariables::Remove(OpCall& call, int64_t count, const int64_t* row_ids) {
  if (widths_.empty()) return;
  int64_t* known = Data<int64_t>(row_ids_);
  std::vector<int64_t> room;
  const int64_t* on_host = call.OnHost(row_ids, count, &room);
  for (int64_t i = 0; i < count; ++i) {
    if (on_host[i] < 0) continue;
    const auto row = static_cast<size_t>(on_host[i]);
    Index(row);
    const int64_t place = place_of_row_[row];
    if (place < 0) continue;
    place_of_row_[row] = -1;
    --num_rows_;
    if (place == num_rows_) continue;
    known[place] = known[num_rows_];
    place_of_row_[static_cast<size_t>(known[place])] = place;
    for (size_t v = 0; v < widths_.size(); ++v) {
      float* rows = Data<float>(rows_[v]);
      std::copy_n(rows + num_rows_ * widths_[v], widths_[v], rows + place * widths_[v]);
    }
  }
}

void RowsOfVariables::Output(tf::OpKernelContext* ctx) {
  SetOutput(ctx, "row_ids", row_ids_.Slice(0, num_rows_));
  for (size_t i = 0; i < rows_.size(); ++i)
    SetOutput(ctx, "of_variables", rows_[i].Slice(0, num_rows_), static_cast<int>(i));
}

}  // namespace sok
