// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/group.h"

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

constexpr int64_t kItemNanoseconds = 1'000'000;  // so that no two items need share a thread

}  // namespace

void ForEachItem(tensorflow::OpKernelContext* ctx,
                 const std::function<void(OpCall& call, int item)>& work) {
  const int num_items = Group(ctx).size();
  OpExecutor threads(ctx);
  if (threads.num_threads() == 1 || num_items < threads.num_threads() ||
      !EngineOf(ctx).IsHostMemory()) {
    ForEachItemInOrder(ctx, work);
    return;
  }
  std::vector<std::exception_ptr> failures(static_cast<size_t>(num_items));
  threads.ParallelFor(num_items, kItemNanoseconds, [&](int64_t begin, int64_t end) {
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

void ForEachItemInOrder(tensorflow::OpKernelContext* ctx,
                        const std::function<void(OpCall& call, int item)>& work) {
  const int num_items = Group(ctx).size();
  for (int item = 0; item < num_items; ++item) {
    OpCall call(ctx);
    work(call, item);
  }
}

}  // namespace sok
