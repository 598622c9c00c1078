// SPDX-License-Identifier: Apache-2.0
// Checks the ids of a layer's inputs, and turns them into keys of joined tables.
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/ranks/collective_handle.h"

namespace sok {
namespace {

REGISTER_OP("SokJoinedKeys")
    .Input("ids: Tids")
    .Input("collectives: num_collectives * variant")
    .Attr("N: int >= 1")
    .Attr("num_collectives: int >= 0 = 0")
    .Attr("Tids: list({int32, int64}) >= 1")
    .Attr("called: list(string)")
    .Attr("nums_rows: list(int)")
    .Attr("first_rows: list(int)")
    .Output("keys: N * int64")
    .SetShapeFn(ShapesOfInputs)
    .Doc(
        "first_row + id for each id of a table of num_rows rows that is joined into a larger "
        "table from first_row on. An id out of range would read a neighbour's row: the step "
        "fails, naming the input by `called`, and with it the lookup of the collective, on all "
        "ranks.");

class JoinedKeys {
 public:
  explicit JoinedKeys(tf::OpKernelConstruction* ctx)
      : called_(ItemAttributes<std::string>(ctx, "called")),
        nums_rows_(ItemAttributes<int64_t>(ctx, "nums_rows")),
        first_rows_(ItemAttributes<int64_t>(ctx, "first_rows")) {
    ItemAttributes<tf::DataType>(ctx, "Tids");
  }

  void operator()(tf::OpKernelContext* ctx) const {
    std::shared_ptr<const CollectiveHandle> handle;
    FailStepOnThrow(ctx, [&] { handle = OptionalCollective(ctx); });
    if (!ctx->status().ok()) return;
    FailLookupOnThrow(ctx, handle.get(), [&] {
      const Group group(ctx);
      ForEachItemAtOnce(ctx, "ids", [&](OpCall&, int i) {
        if (group.Input("ids", i).dtype() == tf::DT_INT32) {
          Join<int32_t>(group, i);
        } else {
          Join<int64_t>(group, i);
        }
      });
    });
  }

 private:
  template <typename Id>
  void Join(const Group& group, int item) const {
    const tf::Tensor& given = group.Input("ids", item);
    const int64_t num_rows = nums_rows_[static_cast<size_t>(item)];
    const int64_t first_row = first_rows_[static_cast<size_t>(item)];
    const Id* ids = Data<Id>(given);
    int64_t* keys = Data<int64_t>(group.Output("keys", item, given.shape()));
    const int64_t count = given.NumElements();
    uint64_t signs = 0;  // the highest bit is set by an id that is negative or beyond the last row
    for (int64_t i = 0; i < count; ++i) {
      const auto id = static_cast<uint64_t>(int64_t{ids[i]});
      signs |= id | (static_cast<uint64_t>(num_rows - 1) - id);
      keys[i] = static_cast<int64_t>(static_cast<uint64_t>(first_row) + id);
    }
    if (static_cast<int64_t>(signs) >= 0) return;
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] >= 0 && ids[i] < num_rows) continue;
      Throw(ErrorCode::kInvalidArgument, called_[static_cast<size_t>(item)], " has ", num_rows,
            " rows: ids must be at least 0 and below that, got ", ids[i], " at position ", i,
            " of ", count);
    }
  }

  const std::vector<std::string> called_;
  const std::vector<int64_t> nums_rows_, first_rows_;
};

// On a GPU: to report an id, the op must read it on the host.
const RegisteredKernel kJoinedKeysKernels[] = {
    {"SokJoinedKeys", Make<KernelOf<JoinedKeys>>, {"ids", "collectives", "keys"}},
};

}  // namespace
}  // namespace sok
