// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/group.h"

#include <algorithm>
#include <cstdint>
#include <exception>

namespace sok {

using tensorflow::shape_inference::InferenceContext;

absl::Status AllVectors(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Vector(InferenceContext::kUnknownDim));
  }
  return absl::OkStatus();
}

absl::Status RowsOfDims(InferenceContext* c) {
  std::vector<int64_t> dims;
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  if (dims.size() != static_cast<size_t>(c->num_outputs())) {
    return absl::InvalidArgumentError("dims must have a value for each item");
  }
  for (int i = 0; i < c->num_outputs(); ++i) {
    c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, dims[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

namespace {

constexpr int64_t kKeyNanoseconds = 20;

/// Nanoseconds of an item, or 0 where items had better be worked on one after another: each on all
/// threads.
int64_t CostAtOnce(tensorflow::OpKernelContext* ctx, int list, int num_threads) {
  const Group group(ctx);
  if (num_threads == 1 || group.size() < num_threads || !EngineOf(ctx).IsHostMemory()) return 0;
  int64_t total = 0;
  int64_t largest = 0;
  for (int item = 0; item < group.size(); ++item) {
    const tensorflow::Tensor& tensor = group.Input(list, item);
    const int64_t size = tensor.dims() > 0 ? tensor.dim_size(0) : 1;
    total += size;
    largest = std::max(largest, size);
  }
  if (total == 0 || largest * num_threads > 2 * total) return 0;  // others would wait for one
  return std::max<int64_t>(1, total * kKeyNanoseconds / group.size());
}

}  // namespace

void ForEachItem(tensorflow::OpKernelContext* ctx,
                 const std::function<void(OpCall& call, int item)>& work) {
  OpCall call(ctx);
  const int num_items = Group(ctx).size();
  for (int item = 0; item < num_items; ++item) work(call, item);
}

void ForEachItemAtOnce(tensorflow::OpKernelContext* ctx, int list,
                       const std::function<void(OpCall& call, int item)>& work) {
  OpExecutor threads(ctx);
  const int64_t cost = CostAtOnce(ctx, list, threads.num_threads());
  if (cost == 0) {
    ForEachItem(ctx, work);
    return;
  }
  const int num_items = Group(ctx).size();
  std::vector<std::exception_ptr> failures(static_cast<size_t>(num_items));
  threads.ParallelFor(num_items, cost, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      try {
        OpCall call(ctx, SerialExecutor());
        work(call, static_cast<int>(item));
      } catch (...) {
        failures[static_cast<size_t>(item)] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace sok
