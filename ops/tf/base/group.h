// SPDX-License-Identifier: Apache-2.0
// Ops on a group of lookups: each argument is a list with one tensor per lookup.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/tf/base/border.h"
#include "ops/tf/base/engine_of_op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace sok {

/// The inputs and outputs of an op that are lists with one tensor per item.
class Group {
 public:
  /// For an op whose attribute N is the number of items.
  explicit Group(tf::OpKernelContext* ctx)
      : ctx_(ctx), size_(static_cast<int>(ctx->op_kernel().def().attr().at("N").i())) {}

  int size() const { return size_; }
  /// The op's.
  const std::string& name() const { return ctx_->op_kernel().name(); }

  const tf::Tensor& Input(const char* list, int item) const { return sok::Input(ctx_, list, item); }
  const tf::Tensor& Vector(const char* list, int item) const {
    return InputOfRank(ctx_, list, 1, item);
  }
  const tf::Tensor& Matrix(const char* list, int item) const {
    return InputOfRank(ctx_, list, 2, item);
  }
  const tf::ResourceHandle& Handle(const char* list, int item) const {
    return HandleIn(ctx_, list, item);
  }
  tf::Tensor& Output(const char* list, int item, const tf::TensorShape& shape) const {
    return sok::Output(ctx_, list, shape, item);
  }
  void SetOutput(const char* list, int item, const tf::Tensor& tensor) const {
    sok::SetOutput(ctx_, list, tensor, item);
  }

 private:
  tf::OpKernelContext* const ctx_;
  const int size_;
};

/// Calls work(call, item) for each item of a group, in order; stops at the first failure.
void ForEachItem(tf::OpKernelContext* ctx, const std::function<void(OpCall& call, int item)>& work);

/// As above, but on the CPU, items of similar size run concurrently, each on one of TensorFlow's
/// threads; rethrows the exception of the first item that failed. `work` must not lock: the owner
/// of a table's lock may wait for these threads. The size of an item is that of its tensor in the
/// input `list`.
void ForEachItemAtOnce(tf::OpKernelContext* ctx, const char* list,
                       const std::function<void(OpCall& call, int item)>& work);

/// As above, for work that needs locks, for which `try_work` may only try: items for which it
/// returns false are left to `work`, on the op's own thread.
void TryEachItemAtOnce(tf::OpKernelContext* ctx, const char* list,
                       const std::function<bool(OpCall& call, int item)>& try_work,
                       const std::function<void(OpCall& call, int item)>& work);

/// A list attribute with one value per item of the op's attribute N.
template <typename T>
std::vector<T> ItemAttributes(tf::OpKernelConstruction* ctx, const char* name) {
  auto values = Attribute<std::vector<T>>(ctx, name);
  const auto num_items = Attribute<int64_t>(ctx, "N");
  if (static_cast<int64_t>(values.size()) != num_items) {
    Throw(ErrorCode::kInvalidArgument, ctx->def().name(), ": ", name, " must have ", num_items,
          " values, got ", values.size());
  }
  return values;
}

}  // namespace sok
