// SPDX-License-Identifier: Apache-2.0
#include "ops/tf/base/group.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace sok {

namespace {

constexpr int64_t kKeyNanoseconds = 20;

/// Nanoseconds per item, or 0 if items should run one after another, each on all threads.
int64_t CostAtOnce(tf::OpKernelContext* ctx, const char* list, int num_threads) {
  const Group group(ctx);
  if (num_threads == 1 || group.size() < num_threads || !EngineOf(ctx).IsHostMemory()) return 0;
  int64_t total = 0;
  int64_t largest = 0;
  for (int item = 0; item < group.size(); ++item) {
    const tf::Tensor& tensor = group.Input(list, item);
    const int64_t size = tensor.dims() > 0 ? tensor.dim_size(0) : 1;
    total += size;
    largest = std::max(largest, size);
  }
  if (total == 0 || largest * num_threads > 2 * total)
    return 0;  // the largest item would delay the others
  return std::max<int64_t>(1, total * kKeyNanoseconds / group.size());
}

struct Outcome {
  bool is_done = false;
  std::exception_ptr failure;
};

}  // namespace

void ForEachItem(tf::OpKernelContext* ctx,
                 const std::function<void(OpCall& call, int item)>& work) {
  OpCall call(ctx);
  const int num_items = Group(ctx).size();
  for (int item = 0; item < num_items; ++item) work(call, item);
}

void ForEachItemAtOnce(tf::OpKernelContext* ctx, const char* list,
                       const std::function<void(OpCall& call, int item)>& work) {
  const auto try_work = [&](OpCall& call, int item) {
    work(call, item);
    return true;
  };
  TryEachItemAtOnce(ctx, list, try_work, work);
}

void TryEachItemAtOnce(tf::OpKernelContext* ctx, const char* list,
                       const std::function<bool(OpCall& call, int item)>& try_work,
                       const std::function<void(OpCall& call, int item)>& work) {
  OpExecutor threads(ctx);
  const int64_t cost = CostAtOnce(ctx, list, threads.num_threads());
  if (cost == 0) {
    ForEachItem(ctx, work);
    return;
  }
  const int num_items = Group(ctx).size();
  std::vector<Outcome> outcomes(static_cast<size_t>(num_items));
  std::atomic<int> next_item{0};
  // One share per thread, which takes items dynamically: ParallelFor would split 26 items for two
  // threads into 15 and 11.
  const int64_t share_cost = cost * num_items / threads.num_threads();
  threads.ParallelFor(threads.num_threads(), share_cost, [&](int64_t, int64_t) {
    for (int item; (item = next_item++) < num_items;) {
      Outcome& outcome = outcomes[static_cast<size_t>(item)];
      try {
        OpCall call(ctx, SerialExecutor());
        outcome.is_done = try_work(call, item);
      } catch (...) {
        outcome.failure = std::current_exception();
      }
    }
  });
  OpCall call(ctx);
  for (int item = 0; item < num_items; ++item) {
    const Outcome& outcome = outcomes[static_cast<size_t>(item)];
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    if (!outcome.is_done) work(call, item);
  }
}

}  // namespace sok
