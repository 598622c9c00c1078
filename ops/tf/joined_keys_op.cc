// SPDX-License-Identifier: Apache-2.0
// Ids of tables that are one with others, as keys of the joined table.
#include <string>
#include <vector>

#include "ops/tf/engine_of_op.h"
#include "ops/tf/exchange_service.h"
#include "ops/tf/group.h"
#include "ops/tf/output_shapes.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokJoinedKeys")
    .Input("ids: Tids")
    .Attr("N: int >= 1")
    .Attr("Tids: list({int32, int64}) >= 1")
    .Attr("layer_name: string")
    .Attr("nums_rows: list(int)")
    .Attr("first_rows: list(int)")
    .Output("keys: N * int64")
    .SetShapeFn(ShapesOfInputs)
    .Doc(
        "first_row + id for each id of a table of num_rows rows, which begin at first_row of the "
        "table that it is joined in. An id that is none of the rows would be a neighbour's: the "
        "step fails.");

class JoinedKeysOp : public tf::OpKernel {
 public:
  explicit JoinedKeysOp(tf::OpKernelConstruction* ctx) : tf::OpKernel(ctx) {
    FailOpOnThrow(ctx, [&] {
      layer_name_ = Attribute<std::string>(ctx, "layer_name");
      nums_rows_ = ItemAttributes<int64_t>(ctx, "nums_rows");
      first_rows_ = ItemAttributes<int64_t>(ctx, "first_rows");
      ItemAttributes<tf::DataType>(ctx, "Tids");
    });
  }

  void Compute(tf::OpKernelContext* ctx) override {
    FailStepOnThrow(ctx, [&] {
      const Group group(ctx);
      ForEachItemAtOnce(ctx, 0, [&](OpCall&, int i) {
        if (group.Input(0, i).dtype() == tf::DT_INT32) {
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
    const tf::Tensor& given = group.Input(0, item);
    const int64_t num_rows = nums_rows_[static_cast<size_t>(item)];
    const int64_t first_row = first_rows_[static_cast<size_t>(item)];
    const Id* ids = Data<Id>(given);
    int64_t* keys = Data<int64_t>(group.Output(0, item, given.shape()));
    const int64_t count = given.NumElements();
    uint64_t signs = 0;  // the first bit is set by an id that is negative or beyond the last row
    for (int64_t i = 0; i < count; ++i) {
      const auto id = static_cast<uint64_t>(int64_t{ids[i]});
      signs |= id | (static_cast<uint64_t>(num_rows - 1) - id);
      keys[i] = static_cast<int64_t>(static_cast<uint64_t>(first_row) + id);
    }
    if (static_cast<int64_t>(signs) >= 0) return;
    for (int64_t i = 0; i < count; ++i) {
      if (ids[i] >= 0 && ids[i] < num_rows) continue;
      Throw(ErrorCode::kInvalidArgument, layer_name_, ": ids of a table of ", num_rows,
            " rows must be at least 0 and below that, got ", ids[i], " at position ", i, " of ",
            count);
    }
  }

  std::string layer_name_;
  std::vector<int64_t> nums_rows_, first_rows_;
};

// On a GPU: who fails for an id has to look at it on the host.
SOK_REGISTER_KERNEL(Name("SokJoinedKeys").HostMemory("ids").HostMemory("keys"), JoinedKeysOp);

}  // namespace
}  // namespace sok
