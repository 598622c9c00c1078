// SPDX-License-Identifier: Apache-2.0
// Ops between rows and bags: pooling rows, and merging the gradients of bags by row.
#include <vector>

#include "ops/tf/base/group.h"
#include "ops/tf/base/kernels.h"
#include "ops/tf/base/lookup_checks.h"
#include "ops/tf/base/output_shapes.h"
#include "ops/tf/base/step_failure.h"
#include "ops/tf/lookup/bags_input.h"
#include "ops/tf/tables/resource/absent_rows.h"
#include "ops/tf/tables/resource/planes_of_group.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace sok {
namespace {

using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

REGISTER_OP("SokPoolRows")
    .Input("rows: N * resource")
    .Input("tables: N * resource")
    .Input("keys: N * int64")
    .Input("row_ids: N * int64")
    .Input("absent_rows: N * float")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("dims: list(int)")
    .Attr("all_keys_have_rows: bool")
    .Attr("gradient: {'reads', 'inserts', 'counts'} = 'reads'")
    .Attr("with_slots: bool = false")
    .Output("output: N * float")
    .SetIsStateful()
    .SetShapeFn(RowsOfDims)
    .Doc(
        "The pooled rows of each bag [num_bags, dim]; with combiner 'none', the row of each "
        "occurrence. weights [num_keys] multiply rows, and a mean divides by their sum; if "
        "empty, all are 1. Keys with the row id -1 read absent_rows [number of such keys, dim] "
        "or, if that is empty, their first values. `gradient`: what a gradient does with keys "
        "without a row: reads nothing of them, inserts them, or counts all keys and trains those "
        "that are admitted. with_slots: brings slots in files into memory, too.");

REGISTER_OP("SokPoolReceivedRows")
    .Input("rows: N * float")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("factors: N * float")
    .Attr("N: int >= 1")
    .Attr("combiners: list(string)")
    .Attr("rows_may_be_alone: bool = false")
    .Output("output: N * float")
    .SetShapeFn([](InferenceContext* c) {
      for (int i = 0; i < c->num_outputs(); ++i) {
        ShapeHandle rows;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 2, &rows));
        c->set_output(i, c->Matrix(InferenceContext::kUnknownDim, c->Dim(rows, 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "As SokPoolRows, for rows [number of replies, dim] received from other ranks. factors "
        "[num_bags] replace the factors of a mean, since a row may be a sum of several; if "
        "empty, they do not. rows_may_be_alone: empty row_splits make each row a bag of its own, "
        "whatever the combiner.");

REGISTER_OP("SokMergeGradients")
    .Input("gradients: N * float")
    .Input("counted: Tcounted")
    .Input("inverse: N * int32")
    .Input("row_splits: N * int64")
    .Input("weights: N * float")
    .Input("factors: N * float")
    .Attr("N: int >= 1")
    .Attr("Tcounted: list({int64, float}) >= 1")
    .Attr("combiners: list(string)")
    .Attr("rows_may_be_alone: bool = false")
    .Output("merged: N * float")
    .SetShapeFn([](InferenceContext* c) {
      const int num_items = c->num_outputs();
      for (int i = 0; i < num_items; ++i) {
        c->set_output(i, c->Matrix(c->Dim(c->input(num_items + i), 0), c->Dim(c->input(i), 1)));
      }
      return absl::OkStatus();
    })
    .Doc(
        "The gradient of each distinct row, summed over its occurrences; gradients is [num_bags, "
        "dim]. `counted` has one element or row per distinct row; weights, factors and "
        "rows_may_be_alone as in the lookup.");

/// The combiner of each item of an op with `rows_may_be_alone`.
class CombinersOfItems {
 public:
  explicit CombinersOfItems(tf::OpKernelConstruction* ctx)
      : combiners_(CombinersOf(ctx)), may_be_alone_(Attribute<bool>(ctx, "rows_may_be_alone")) {}

  Combiner Of(int item, const tf::Tensor& row_splits) const {
    if (may_be_alone_ && row_splits.NumElements() == 0) return Combiner::kNone;
    return combiners_[static_cast<size_t>(item)];
  }

 private:
  std::vector<Combiner> combiners_;
  bool may_be_alone_ = false;
};

class PooledRowsOfTables {
 public:
  explicit PooledRowsOfTables(tf::OpKernelConstruction* ctx)
      : all_keys_have_rows_(Attribute<bool>(ctx, "all_keys_have_rows")),
        with_slots_(Attribute<bool>(ctx, "with_slots")),
        combiners_(CombinersOf(ctx)) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    OpCall call(ctx);
    const PlanesOfGroup planes(ctx, call, group, "tables");
    std::vector<RowSource> sources;
    for (int i = 0; i < group.size(); ++i) {
      sources.push_back(SourceOf(ctx, call, group, i, planes.view(i)));
    }
    ForEachItemAtOnce(ctx, "inverse", [&](OpCall& item_call, int i) {
      Pool(item_call, group, i, planes.view(i).options().dim, sources[static_cast<size_t>(i)]);
    });
  }

 private:
  RowSource SourceOf(tf::OpKernelContext* ctx, OpCall& call, const Group& group, int i,
                     const TableView& view) const {
    const tf::Tensor& row_ids = group.Vector("row_ids", i);
    RowSource source;
    source.plane = view.RowsOf(ctx, group.Handle("rows", i));
    source.row_ids = Data<int64_t>(row_ids);
    if (with_slots_) source.trained = &view.planes;
    if (!all_keys_have_rows_) {
      source.absent_values =
          AbsentRows(call, view, group.Vector("keys", i), row_ids, group.Matrix("absent_rows", i));
    }
    return source;
  }

  void Pool(OpCall& call, const Group& group, int i, int64_t dim, const RowSource& source) const {
    const Bags bags = CheckedBags(
        call,
        {combiners_[static_cast<size_t>(i)], group.Input("row_ids", i).NumElements(),
         group.Vector("inverse", i), group.Vector("row_splits", i), &group.Vector("weights", i)},
        group.name().c_str());
    call.engine().PoolRows(call, bags, source,
                           Data<float>(group.Output("output", i, {bags.num_bags, dim})));
  }

  const bool all_keys_have_rows_;
  const bool with_slots_;
  const std::vector<Combiner> combiners_;
};

class PooledReplies {
 public:
  explicit PooledReplies(tf::OpKernelConstruction* ctx) : combiners_(ctx) {}

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItemAtOnce(ctx, "rows", [&](OpCall& call, int i) {
      const tf::Tensor& rows = group.Matrix("rows", i);
      const int64_t dim = rows.dim_size(1);
      const tf::Tensor& splits = group.Vector("row_splits", i);
      const Bags bags =
          CheckedBags(call,
                      {combiners_.Of(i, splits), rows.dim_size(0), group.Vector("inverse", i),
                       splits, &group.Vector("weights", i), &group.Vector("factors", i)},
                      group.name().c_str());
      call.engine().PoolRows(call, bags, {FloatRows(Data<float>(rows), dim), nullptr, nullptr},
                             Data<float>(group.Output("output", i, {bags.num_bags, dim})));
    });
  }

 private:
  const CombinersOfItems combiners_;
};

class MergedGradients {
 public:
  explicit MergedGradients(tf::OpKernelConstruction* ctx) : combiners_(ctx) {
    ItemAttributes<tf::DataType>(ctx, "Tcounted");
  }

  void operator()(tf::OpKernelContext* ctx) const {
    const Group group(ctx);
    ForEachItemAtOnce(ctx, "gradients", [&](OpCall& call, int i) { Merge(call, group, i); });
  }

 private:
  void Merge(OpCall& call, const Group& group, int i) const {
    const tf::Tensor& gradients = group.Matrix("gradients", i);
    const int64_t num_distinct =
        group.Input("counted", i).dims() > 0 ? group.Input("counted", i).dim_size(0) : 0;
    const tf::Tensor& splits = group.Vector("row_splits", i);
    const Bags bags =
        CheckedBags(call,
                    {combiners_.Of(i, splits), num_distinct, group.Vector("inverse", i), splits,
                     &group.Vector("weights", i), &group.Vector("factors", i)},
                    group.name().c_str());
    CheckGradientsOfBags(group.name(), gradients, bags);
    if (call.engine().IsHostMemory() && IsOneToOneInOrder(bags)) {  // nothing to add up
      group.SetOutput("merged", i, gradients);
      return;
    }
    const int64_t dim = gradients.dim_size(1);
    call.engine().MergeGradients(call, bags, dim, Data<float>(gradients),
                                 Data<float>(group.Output("merged", i, {num_distinct, dim})));
  }

  const CombinersOfItems combiners_;
};

const RegisteredKernel kPoolingKernels[] = {
    {"SokPoolRows", Make<StepKernelOf<PooledRowsOfTables>>, {"rows", "tables"}},
    {"SokPoolReceivedRows", Make<StepKernelOf<PooledReplies>>, {}},
    {"SokMergeGradients", Make<StepKernelOf<MergedGradients>>, {}},
};

}  // namespace
}  // namespace sok
