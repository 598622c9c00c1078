// SPDX-License-Identifier: Apache-2.0
// The op that counts the keys of a training step and assigns rows to admitted keys.
#include <cstdint>
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/tables/resource/absent_rows.h"

namespace sok {
namespace {

namespace tf = tensorflow;

REGISTER_OP("SokAdmitKeys")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("counts: N * int32")
    .Input("absent_rows: N * float")
    .Input("step: int64")
    .Attr("N: int >= 1")
    .Attr("rows_are_given: list(bool)")
    .Output("rows_to_train: N * int64")
    .SetIsStateful()
    .SetShapeFn(ShapesOfSecondList)
    .Doc(
        "Counts distinct keys, which occurred `counts` times in this step and for which a lookup "
        "has found row_ids, and records the step. Assigns a row to each key that has now "
        "occurred often enough for its table's filter, or to all keys if it has none. Outputs "
        "the row of each key, or of a key that the filter still keeps out an id below -1: if a "
        "later lookup of the step gives the key a row, SokApplyRule trains this row. "
        "rows_are_given: absent_rows are the initial rows of keys whose row_ids are -1, in their "
        "order, and a key that has lost its row since the lookup gets none in this step; "
        "otherwise rows start at their first values. If an item fails, its table is unchanged, "
        "but items before it are done.");

class AdmitKeys {
 public:
  explicit AdmitKeys(tf::OpKernelConstruction* ctx)
      : rows_are_given_(ItemAttributes<bool>(ctx, "rows_are_given")) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItem(ctx, [&](OpCall& call, int i) {
      const tf::Tensor& keys = group.Vector("keys", i);
      const tf::Tensor& row_ids = group.Vector("row_ids", i);
      const tf::Tensor& counts = group.Vector("counts", i);
      const tf::Tensor& absent_rows = group.Matrix("absent_rows", i);
      const int64_t num_keys = keys.NumElements();
      if (row_ids.NumElements() != num_keys || counts.NumElements() != num_keys) {
        Throw(ErrorCode::kInvalidArgument, group.name(), ": ", num_keys, " keys, but ",
              row_ids.NumElements(), " row ids and ", counts.NumElements(), " counts");
      }
      const auto resource = LookupTable(ctx, group.Handle("tables", i));
      Arrival arrival = resource->ArrivalOf(ctx, Arrival::Purpose::kTrain, keys);
      arrival.training_step = Input(ctx, "step").scalar<int64_t>()();
      std::vector<int32_t> room_of_counts;
      arrival.counts = call.OnHost(Data<int32_t>(counts), num_keys, &room_of_counts);
      std::vector<int64_t> room_of_found;
      const bool are_given = rows_are_given_[static_cast<size_t>(i)];
      if (are_given) arrival.found = call.OnHost(Data<int64_t>(row_ids), num_keys, &room_of_found);
      tf::Tensor& rows_to_train = group.Output("rows_to_train", i, keys.shape());
      resource->WithRoom(call, num_keys, [&](const TableView& view) {
        if (are_given) GiveRows(view.options(), absent_rows, &arrival);
        view.Arrive(call, arrival, Data<int64_t>(rows_to_train));
      });
      rows_to_train = resource->KeepRows(rows_to_train, arrival);
    });
  }

 private:
  const std::vector<bool> rows_are_given_;
};

const RegisteredKernel kAdmitKernels[] = {
    {"SokAdmitKeys", Make<StepKernelOf<AdmitKeys>>, {"tables", "step"}},
};

}  // namespace
}  // namespace sok
