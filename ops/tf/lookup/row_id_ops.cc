// SPDX-License-Identifier: Apache-2.0
// Ops on row ids that leave a lookup: gradients of eager code are applied by another step, after
// any of TensorFlow's ops on indices, and perhaps after a restore.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/owning_tensor.h"
#include "ops/tf/tables/resource/table_resource.h"

namespace sok {
namespace {

REGISTER_OP("SokKeepRows")
    .Input("row_ids: int64")
    .Input("found: int64")
    .Output("kept: int64")
    .SetShapeFn(ShapesOfInputs)
    .Doc(
        "The row ids, in memory that keeps rows from being reused as the tensor `found` of an op "
        "that finds rows does. Stock ops on row ids, such as a gather, do not.");

REGISTER_OP("SokAddGeneration")
    .Input("row_ids: int64")
    .Input("found: int64")
    .Output("ids: int64")
    .SetShapeFn(ShapesOfInputs)
    .Doc(
        "The row ids with the generation of `found`, an output of an op that finds rows or of "
        "SokKeepRows, in their upper 32 bits: ids from which SokRowsOfIds tells whether the rows "
        "are still those of their keys. Ids below 0 stay.");

REGISTER_OP("SokRowsOfIds")
    .Input("table: resource")
    .Input("ids: int64")
    .Output("row_ids: int64")
    .Output("places: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "The row ids of ids of SokAddGeneration, and their places among the ids: those whose key "
        "has been evicted are left out. Fails if the table's contents have been replaced since the "
        "lookup, or if an id is of no lookup in this table. Ids below 0 stay.");

REGISTER_OP("SokCheckRowsInUse")
    .Input("table: resource")
    .Input("row_ids: int64")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc(
        "Fails if one of the row ids, without a generation, is of no row that the table has given "
        "to a key. Ids below 0 name no row.");

REGISTER_OP("SokRowsToMakeDense")
    .Input("ids: int64")
    .Output("row_ids: int64")
    .Output("places: int64")
    .SetIsStateful()
    .SetShapeFn(AllVectors)
    .Doc(
        "As SokRowsOfIds, of the table of the ids, for its dense gradient, of which the table then "
        "knows. Ids without a generation stay.");

REGISTER_OP("SokCheckDenseGradient")
    .Input("table: resource")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::NoOutputs)
    .Doc("Fails if keys have lost rows since the first dense gradient of a table was made.");

void KeepRows(tf::OpKernelContext* ctx) {
  const tf::Tensor& row_ids = Input(ctx, "row_ids");
  const auto found = std::make_shared<tf::Tensor>(Input(ctx, "found"));
  const int64_t kept = GenerationOf(row_ids), generation = GenerationOf(*found);
  const bool is_one = kept == 0 || generation == 0;  // of no row ids, there is none
  const int64_t older = is_one ? std::max(kept, generation) : std::min(kept, generation);
  SetOutput(ctx, "kept", Owning(row_ids, found, older));
}

void AddGeneration(tf::OpKernelContext* ctx) {
  const int64_t generation = GenerationOf(Input(ctx, "found"));
  const tf::Tensor& row_ids = Input(ctx, "row_ids");
  tf::Tensor& ids = Output(ctx, "ids", row_ids.shape());
  OpCall call(ctx);
  const int64_t count = row_ids.NumElements();
  std::vector<int64_t> buffer, values(static_cast<size_t>(count));
  const int64_t* given = call.OnHost(Data<int64_t>(row_ids), count, &buffer);
  std::transform(given, given + count, values.begin(),
                 [&](int64_t row_id) { return WithGeneration(row_id, generation); });
  call.CopyFromHost(Data<int64_t>(ids), values.data(), count);
}

constexpr char kLookUpAgain[] =
    ": the table has been restored, loaded or initialized since the lookup, and other keys may "
    "have these rows now; or it is the gradient of another table. Look the keys up again, and take "
    "the gradient of that";

void OutputOnDevice(tf::OpKernelContext* ctx, OpCall& call, const char* name,
                    const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  call.CopyFromHost(Data<int64_t>(Output(ctx, name, {count})), values.data(), count);
}

/// Outputs the rows that `meanings_of` the ids gives, and their places, for a gradient of `table`.
template <typename MeaningsOf>
void OutputRows(tf::OpKernelContext* ctx, const std::string& table, const MeaningsOf& meanings_of) {
  using Meaning = RowGenerations::Meaning;
  const tf::Tensor& ids = InputOfRank(ctx, "ids", 1);
  OpCall call(ctx);
  std::vector<int64_t> buffer, row_ids, places;
  const int64_t count = ids.NumElements();
  const int64_t* given = call.OnHost(Data<int64_t>(ids), count, &buffer);
  const std::vector<Meaning> meanings = meanings_of(count, given);
  for (int64_t i = 0; i < count; ++i) {
    const Meaning meaning = meanings[static_cast<size_t>(i)];
    if (meaning == Meaning::kNoRowOfAny) {
      Throw(ErrorCode::kInvalidArgument, table, "index ", given[i],
            " of a gradient does not belong to a lookup of this table, whose rows are found by "
            "key: look the keys up, and take the gradient of that lookup");
    }
    if (meaning == Meaning::kReplaced) {
      Throw(ErrorCode::kFailedPrecondition, table, "a gradient does not match what the table holds",
            kLookUpAgain);
    }
    if (meaning == Meaning::kEvicted) continue;
    row_ids.push_back(WithoutGeneration(given[i]));
    places.push_back(i);
  }
  OutputOnDevice(ctx, call, "row_ids", row_ids);
  OutputOnDevice(ctx, call, "places", places);
}

/// "table 'name': ", for errors.
std::string NameOf(TableResource& resource) {
  std::string name;
  resource.WithTable(
      [&](const TableView& view) { name = "table '" + view.options().name + "': "; });
  return name;
}

void RowsOfIds(tf::OpKernelContext* ctx) {
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  OutputRows(ctx, NameOf(*resource), [&](int64_t count, const int64_t* ids) {
    return resource->generations().MeaningsOf(count, ids);
  });
}

void CheckRowsInUse(tf::OpKernelContext* ctx) {
  const tf::Tensor& row_ids = Input(ctx, "row_ids");
  OpCall call(ctx);
  std::vector<int64_t> buffer;
  const int64_t count = row_ids.NumElements();
  const int64_t* given = call.OnHost(Data<int64_t>(row_ids), count, &buffer);
  LookupTable(ctx, HandleIn(ctx, "table"))->WithTable([&](const TableView& view) {
    const int64_t num_rows = view.table.Size(call).num_rows;
    const int64_t* first =
        std::find_if(given, given + count, [&](int64_t row_id) { return row_id >= num_rows; });
    if (first != given + count) ThrowNoSuchRow(view.options(), *first, num_rows);
  });
}

void RowsToMakeDense(tf::OpKernelContext* ctx) {
  OutputRows(ctx, "", [&](int64_t count, const int64_t* ids) {
    return RowGenerations::MakeDense(count, ids);
  });
}

void CheckDenseGradient(tf::OpKernelContext* ctx) {
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  if (!resource->generations().MayDenseBeStale()) return;
  Throw(ErrorCode::kFailedPrecondition, NameOf(*resource),
        "a dense gradient does not tell its keys, and keys have lost their rows since the first "
        "one was made: the table has been restored, loaded or initialized, or it evicts. Apply "
        "the gradient as tf.IndexedSlices, or make it dense in the tf.function that applies it");
}

const RegisteredKernel kRowIdKernels[] = {
    {"SokKeepRows", Make<KernelOf<Calls<KeepRows>>>, {}},
    {"SokAddGeneration", Make<KernelOf<Calls<AddGeneration>>>, {}},
    {"SokRowsOfIds", Make<StepKernelOf<Calls<RowsOfIds>>>, {"table"}},
    {"SokCheckRowsInUse", Make<StepKernelOf<Calls<CheckRowsInUse>>>, {"table"}},
    {"SokRowsToMakeDense", Make<KernelOf<Calls<RowsToMakeDense>>>, {}},
    {"SokCheckDenseGradient", Make<StepKernelOf<Calls<CheckDenseGradient>>>, {"table"}},
};

}  // namespace
}  // namespace sok
