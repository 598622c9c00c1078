// SPDX-License-Identifier: Apache-2.0
// Ops on row ids that leave a lookup: gradients of eager code are applied by another step, after
// any of TensorFlow's ops on indices, and perhaps after a restore.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/tf/base/engine_of_op.h"
#include "ops/tf/base/holding_tensor.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/tables/resource/table_resource.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

namespace tf = tensorflow;
using tf::shape_inference::InferenceContext;

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

REGISTER_OP("SokRemoveGeneration")
    .Input("ids: int64")
    .Output("row_ids: int64")
    .SetShapeFn(ShapesOfInputs)
    .Doc("The row ids of SokAddGeneration. Ids without a generation stay.");

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

/// outputs[i] = convert(ids[i]), on the engine of the op.
template <typename Convert>
void ConvertIds(tf::OpKernelContext* ctx, const char* input, const char* output,
                const Convert& convert) {
  const tf::Tensor& ids = Input(ctx, input);
  const int64_t count = ids.NumElements();
  tf::Tensor& converted = Output(ctx, output, ids.shape());
  OpCall call(ctx);
  std::vector<int64_t> room, values(static_cast<size_t>(count));
  const int64_t* given = call.OnHost(Data<int64_t>(ids), count, &room);
  std::transform(given, given + count, values.begin(), convert);
  call.CopyFromHost(Data<int64_t>(converted), values.data(), count);
}

void KeepRows(tf::OpKernelContext* ctx) {
  const tf::Tensor& row_ids = Input(ctx, "row_ids");
  const auto found = std::make_shared<tf::Tensor>(Input(ctx, "found"));
  const int64_t kept = GenerationOf(row_ids), generation = GenerationOf(*found);
  const bool is_one = kept == 0 || generation == 0;  // of no row ids, there is none
  const int64_t older = is_one ? std::max(kept, generation) : std::min(kept, generation);
  SetOutput(ctx, "kept", Holding(row_ids, found, older));
}

void AddGeneration(tf::OpKernelContext* ctx) {
  const int64_t generation = GenerationOf(Input(ctx, "found"));
  ConvertIds(ctx, "row_ids", "ids",
             [&](int64_t row_id) { return WithGeneration(row_id, generation); });
}

void RemoveGeneration(tf::OpKernelContext* ctx) {
  ConvertIds(ctx, "ids", "row_ids", WithoutGeneration);
}

/// False if its key has been evicted.
bool IsRow(TableResource& resource, int64_t id, RowGenerations::Meaning meaning) {
  using Meaning = RowGenerations::Meaning;
  if (meaning == Meaning::kRow || meaning == Meaning::kEvicted) return meaning == Meaning::kRow;
  resource.WithTable([&](Table& table) {
    const std::string& name = table.options().name;
    if (meaning == Meaning::kNoRowOfAny) {
      Throw(ErrorCode::kInvalidArgument, "table '", name, "': the index ", id,
            " of a gradient is of no lookup, but rows belong to keys: take the gradient of a "
            "lookup of the keys");
    }
    Throw(ErrorCode::kFailedPrecondition, "table '", name,
          "': a gradient has row ids of other contents: the table has been restored, loaded or "
          "initialized since the lookup, and other keys may have these rows now; or it is the "
          "gradient of another table. Look the keys up again, and take the gradient of that");
  });
  return false;
}

void OutputOnDevice(tf::OpKernelContext* ctx, OpCall& call, const char* name,
                    const std::vector<int64_t>& values) {
  const auto count = static_cast<int64_t>(values.size());
  call.CopyFromHost(Data<int64_t>(Output(ctx, name, {count})), values.data(), count);
}

void RowsOfIds(tf::OpKernelContext* ctx) {
  const tf::Tensor& ids = InputOfRank(ctx, "ids", 1);
  const auto resource = LookupTable(ctx, HandleIn(ctx, "table"));
  OpCall call(ctx);
  std::vector<int64_t> room, row_ids, places;
  const int64_t count = ids.NumElements();
  const int64_t* given = call.OnHost(Data<int64_t>(ids), count, &room);
  const auto meanings = resource->generations().MeaningsOf(count, given);
  for (int64_t i = 0; i < count; ++i) {
    if (!IsRow(*resource, given[i], meanings[static_cast<size_t>(i)])) continue;
    row_ids.push_back(WithoutGeneration(given[i]));
    places.push_back(i);
  }
  OutputOnDevice(ctx, call, "row_ids", row_ids);
  OutputOnDevice(ctx, call, "places", places);
}

const RegisteredKernel kRowIdKernels[] = {
    {"SokKeepRows", Make<KernelOf<Calls<KeepRows>>>, {}},
    {"SokAddGeneration", Make<KernelOf<Calls<AddGeneration>>>, {}},
    {"SokRemoveGeneration", Make<KernelOf<Calls<RemoveGeneration>>>, {}},
    {"SokRowsOfIds", Make<StepKernelOf<Calls<RowsOfIds>>>, {"table"}},
};

}  // namespace
}  // namespace sok
