// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/checkpoint/layout/rows_of_variables.h"

#include <algorithm>

#include "ops/tf/base/border.h"

namespace sok {
namespace {

namespace tf = tensorflow;

class HostRows : public ColumnSource {
 public:
  HostRows(OpCall& call, tf::Tensor& rows)
      : call_(call), rows_(Data<float>(rows)), width_(rows.dim_size(1)) {}

  void ToHost(int64_t count, const int64_t* row_ids, void* to) override {
    ForEachRow(count, row_ids, [&](int64_t i, float* row) {
      std::copy_n(row, width_, static_cast<float*>(to) + i * width_);
    });
  }
  void FromHost(int64_t count, const int64_t* row_ids, const void* from,
                int64_t /*row_bytes*/) override {
    ForEachRow(count, row_ids, [&](int64_t i, float* row) {
      std::copy_n(static_cast<const float*>(from) + i * width_, width_, row);
    });
  }
  void FromHostInOrder(int64_t count, int64_t first_row, const void* from) override {
    if (from == rows_ + first_row * width_) return;
    std::copy_n(static_cast<const float*>(from), count * width_, rows_ + first_row * width_);
  }
  RowsView rows() const override { return FloatRows(rows_, width_); }

 private:
  template <typename Use>
  void ForEachRow(int64_t count, const int64_t* row_ids, const Use& use) {
    std::vector<int64_t> buffer;
    const int64_t* ids = call_.OnHost(row_ids, count, &buffer);
    for (int64_t i = 0; i < count; ++i) use(i, rows_ + ids[i] * width_);
  }

  OpCall& call_;
  float* const rows_;
  const int64_t width_;
};

}  // namespace

RowsOfVariables::RowsOfVariables(tf::OpKernelContext* ctx, OpCall& call,
                                 const std::vector<int64_t>& widths, int64_t num_rows,
                                 std::vector<Column>* columns) {
  tf::AllocatorAttributes on_host;
  on_host.set_on_host(true);
  for (const int64_t width : widths) {
    tf::Tensor rows;
    ThrowIfError(
        ctx->allocate_temp(tf::DT_FLOAT, tf::TensorShape({num_rows, width}), &rows, on_host));
    columns->push_back(
        {"", tf::DT_FLOAT, tf::TensorShape({width}), std::make_unique<HostRows>(call, rows)});
    rows_.push_back(std::move(rows));
  }
}

void RowsOfVariables::Output(tf::OpKernelContext* ctx, OpCall& call, Table& table) {
  const TableEntries entries = rows_.empty() ? TableEntries{} : table.Export(call);
  int64_t* row_ids = Data<int64_t>(sok::Output(ctx, "row_ids", {entries.count}));
  call.CopyToHost(row_ids, entries.row_ids, entries.count);
  for (size_t v = 0; v < rows_.size(); ++v) {
    float* rows = Data<float>(rows_[v]);
    const int64_t width = rows_[v].dim_size(1);
    for (int64_t i = 0; i < entries.count; ++i) {  // row ids ascend
      if (row_ids[i] != i) std::copy_n(rows + row_ids[i] * width, width, rows + i * width);
    }
    SetOutput(ctx, "of_variables", rows_[v].Slice(0, entries.count), static_cast<int>(v));
  }
}

}  // namespace sok
